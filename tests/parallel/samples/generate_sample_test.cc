// generate as its user meets it, and the way of a model through train_gpt, its checkpoints and
// Hugging Face folders: whoever writes, with whatever layout, it is the same text. The programs'
// folder and this folder are the test's arguments.

#include <gtest/gtest.h>

#include <string>

#include "parallel/checkpoint/hash.h"
#include "tests/support/run_program.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

using tests::Output;
using tests::runProgram;

namespace fs = std::filesystem;

std::string programs, sources;
const tests::Arguments commandLine{{"FOLDER_OF_PROGRAMS", &programs},
                                   {"FOLDER_OF_TESTS", &sources}};

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 700; ++i) text += "line " + std::to_string(i * i % 97) + " of the text, ";
    tests::setContents(file("text"), text);
  }
  std::string file(const std::string& name) const { return folder_.path() / name; }
  static Output run(const std::string& program, const std::string& arguments) {
    return runProgram(programs + "/" + program + " " + arguments);
  }
  void train(const std::string& more) const {
    const Output output =
        run("train_gpt", "--context 16 --batch 8 --generate 0 --text " + file("text") + " " + more);
    ASSERT_EQ(output.exitCode, 0) << output.text;
  }
  static std::string written(const std::string& arguments) {
    const Output output = run("generate", arguments);
    EXPECT_EQ(output.exitCode, 0) << arguments << "\n" << output.text;
    return output.text;
  }
  static void expectRefused(const std::string& program, const std::string& arguments, int exitCode,
                            const std::string& named) {
    const Output output = run(program, arguments);
    EXPECT_EQ(output.exitCode, exitCode) << output.text;
    EXPECT_NE(output.text.find(named), std::string::npos) << output.text << "\nnot: " << named;
  }
  static std::string llama() { return sources + "/huggingface/llama"; }
  static std::string gpt2() {
    return " --tokenizer " + sources + "/tokenizer/tokenizers/gpt2.json ";
  }
  static constexpr const char* kSmall = "--layers 1 --width 32 --heads 2 ";

  tests::TemporaryFolder folder_;
};

// Greedy text is the same from a checkpoint, from a folder that was exported of it, and on ranks.
TEST_F(Generate, WritesTheSameFromACheckpointAndAFolder) {
  const std::string small = kSmall;
  train(small + gpt2() + "--fsdp 2 --steps 120 --lr 0.02 --checkpoints " + file("run") +
        " --export " + file("out"));
  const std::string how = " --greedy --tokens 12 --prompt 'line 4'";
  const std::string text = written("--from " + file("run") + gpt2() + how);
  EXPECT_EQ(text.find("line 4"), 0u) << text;
  EXPECT_NE(text.find("of the text"), std::string::npos) << "it has learned nothing: " << text;
  EXPECT_EQ(written("--from " + file("run") + "/step-000120" + gpt2() + how), text);
  EXPECT_EQ(written("--from " + file("out") + how), text);
  EXPECT_EQ(written("--from " + file("out") + how + " --ranks 2"), text);
  EXPECT_EQ(written("--from " + file("run") + gpt2() + how + " --tp 2"), text);
  // A shorter context than the training's, of the checkpoint as of the folder.
  const std::string drawn = " --temperature 2 --tokens 12 --prompt 'line 4'";
  const std::string nearer = written("--from " + file("run") + gpt2() + drawn + " --context 2");
  EXPECT_NE(nearer, written("--from " + file("run") + gpt2() + drawn));
  EXPECT_EQ(written("--from " + file("out") + drawn + " --context 2"), nearer);
  // And once more out of the checkpoint.
  EXPECT_EQ(written("--from " + file("run") + gpt2() + "--tokens 0 --export " + file("again")), "");
  for (const std::string name : {"config.json", "tokenizer.json", "model.safetensors"})
    EXPECT_EQ(tests::contentsOf(file("again/" + name)), tests::contentsOf(file("out/" + name)));
}

TEST_F(Generate, DrawsAsItIsTold) {
  train(std::string(kSmall) + "--steps 3 --checkpoints " + file("run"));
  const std::string from = "--from " + file("run") + " --tokens 40 ";
  EXPECT_EQ(written(from + "--seed 1"), written(from + "--seed 1"));
  EXPECT_NE(written(from + "--seed 1"), written(from + "--seed 2"));
  EXPECT_EQ(written(from + "--seed 1 --top-k 1"), written(from + "--greedy"));
  EXPECT_EQ(written(from + "--temperature 0"), written(from + "--greedy"));
  EXPECT_NE(written(from + "--seed 1 --temperature 3"), written(from + "--seed 1"));
}

TEST_F(Generate, ATrainingBeginsWithAFolder) {
  fs::copy(llama(), file("llama"));
  expectRefused("generate", "--from " + file("llama"), 1, "has no tokenizer.json");
  expectRefused("generate", "--from " + file("llama") + gpt2(), 1,
                "its model has a vocabulary of 29, and the tokenizer one of 435");
  expectRefused("train_gpt", "--init-from " + file("llama") + gpt2() + "--text " + file("text"), 1,
                "its model has a vocabulary of 29, and the tokenizer one of 435");
  // Without --context the folder's is taken, where it is shorter than what is usual.
  const Output shorter = run("train_gpt", "--init-from " + sources +
                                              "/huggingface/llama-bytes --batch 8 --generate 0 "
                                              "--steps 1 --text " +
                                              file("text"));
  EXPECT_EQ(shorter.exitCode, 0) << shorter.text;
  // One whose vocabulary is large enough, of ours, and no longer of the same weights after a step.
  train(std::string(kSmall) + gpt2() + "--steps 2 --export " + file("first"));
  train("--init-from " + file("first") + " --steps 1 --lr 1e-12 --weight-decay 0 --export " +
        file("same"));
  train("--init-from " + file("first") + " --steps 2 --tp 2 --export " + file("other"));
  const std::string how = " --greedy --tokens 8 --prompt line";
  EXPECT_EQ(written("--from " + file("same") + how), written("--from " + file("first") + how));
  EXPECT_EQ(tests::contentsOf(file("same/tokenizer.json")),
            tests::contentsOf(file("first/tokenizer.json")));
  EXPECT_NE(tests::contentsOf(file("other/model.safetensors")),
            tests::contentsOf(file("first/model.safetensors")));
  expectRefused("train_gpt", "--init-from " + file("first") + " --width 8 --text x", 2, "--width");
  expectRefused("train_gpt",
                "--init-from " + file("first") + " --context 17 --text " + file("text"), 1,
                "--context 17: the model of --init-from sees at most 16 tokens");
  const std::string again = "--init-from " + file("first") + " --context 16 --text " + file("text");
  expectRefused("train_gpt", again + " --pp 2", 1, "none for some of 2 stages");
  expectRefused("train_gpt", again + " --lines", 1, "--lines is for tokens that are bytes");
  expectRefused("train_gpt",
                "--export " + file("first") + " --steps 1 --ranks 2 --text " + file("text"), 1,
                "--export " + file("first") + " is there already");
}

// A Llama of transformers' is trained on, and is one again.
TEST_F(Generate, ALlamaIsTrainedOn) {
  const std::string from = "--init-from " + sources + "/huggingface/llama-bytes ";
  train(from + "--tp 2 --fsdp 2 --steps 60 --checkpoints " + file("run") + " --export " +
        file("out"));
  EXPECT_NE(tests::contentsOf(file("out/config.json")).find("LlamaForCausalLM"), std::string::npos);
  const std::string how = " --greedy --tokens 20 --prompt 'line 4'";
  const std::string text = written("--from " + file("out") + how);
  EXPECT_EQ(written("--from " + file("run") + how), text);
  EXPECT_EQ(written("--from " + file("out") + how + " --ranks 4 --tp 2"), text);
  expectRefused("train_gpt", from + "--context 16 --tp 3 --text " + file("text"), 1,
                "cannot be dealt out to 3 ranks of tensor parallelism");
}

// What a text does not need is not had: with all of such a context it would be gigabytes.
TEST_F(Generate, AsksForNoMoreThanTheTextNeeds) {
  train("--init-from " + sources + "/huggingface/llama-bytes --steps 1 --export " + file("out"));
  const std::string how = " --greedy --tokens 8 --prompt line", config = file("out/config.json");
  const std::string text = written("--from " + file("out") + how);
  std::string json = tests::contentsOf(config);
  const std::string key = "\"max_position_embeddings\": ";
  const size_t at = json.find(key) + key.size();
  json.replace(at, json.find(',', at) - at, "1000000000");
  tests::setContents(config, json);
  const std::string limit = tests::kSanitized ? "" : "ulimit -v 4000000; ";
  const Output output = runProgram(limit + programs + "/generate --from " + file("out") + how);
  EXPECT_EQ(output.text, text);
}

// A checkpoint says itself which model it is of; one that is larger than what it has is refused
// before there is such a model.
TEST_F(Generate, ComparesACheckpointsModelWithWhatItHolds) {
  train(std::string(kSmall) + "--steps 1 --checkpoints " + file("run"));
  const fs::path manifest = fs::path(file("run")) / "step-000001" / "manifest.json";
  const std::string good = tests::contentsOf(manifest);
  const auto expectSaid = [&](const std::string& key, const std::string& value,
                              const std::string& said) {
    std::string text = good;
    const std::string escaped = "\\\"" + key + "\\\": ";
    const size_t at = text.find(escaped) + escaped.size();
    ASSERT_GE(at, escaped.size());
    text.replace(at, text.find(',', at) - at, value);
    const size_t end = text.rfind(",\"xxh128\":");
    const std::string content = text.substr(14, end - 14);  // behind {"checkpoint":
    tests::setContents(manifest, "{\"checkpoint\":" + content + ",\"xxh128\":\"" +
                                     hash128(content.data(), content.size()) + "\"}\n");
    expectRefused("generate", "--from " + file("run"), 1, said);
  };
  expectSaid("n_layer", "9000", "n_layer: it is 9000, and the checkpoint has 1 layers");
  expectSaid("n_layer", "3000000", "n_layer: 3000000 is not between 1 and 10000");
  expectSaid("n_positions", "1000000000", "its model has 3.2e+10 parameters, and the checkpoint ");
  tests::setContents(manifest, good);
  fs::resize_file(manifest.parent_path() / "rank-00000.safetensors", 1000);
  expectRefused("generate", "--from " + file("run"), 1, " has 1000 bytes, and the manifest says ");
}

TEST_F(Generate, RefusesByName) {
  const Output lost = runProgram("(" + programs + "/generate --help >/dev/full)");
  EXPECT_EQ(lost.exitCode, 1);
  EXPECT_EQ(lost.text, "generate: standard output cannot be written: No space left on device\n");
  expectRefused("generate", "", 2, "--from");
  expectRefused("generate", "--from " + file("absent"), 1,
                "has neither a config.json, nor a checkpoint, nor is it one");
  expectRefused("generate", "--from x --greedy --temperature 1", 2, "--greedy");
  expectRefused("generate", "--from x --temperature -1", 2, "--temperature");
  expectRefused("generate", "--from x --top-k -1", 2, "--top-k");
  train(std::string(kSmall) + gpt2() + "--steps 1 --checkpoints " + file("run"));
  const std::string from = "--from " + file("run");
  expectRefused("generate", from, 1, ": its tokenizer.json is needed, as --tokenizer");
  expectRefused("generate", from + " --tokenizer " + sources + "/tokenizer/tokenizers/qwen2.json",
                1, " was trained with tokenizer ");
  expectRefused("generate", from + gpt2() + "--context 17", 1,
                "--context 17: the model sees at most 16 tokens");
  expectRefused("generate", from + gpt2() + "--tp 3", 1, "3");
  const Output stages = run("generate", from + gpt2() + "--pp 2");
  EXPECT_EQ(stages.exitCode, 1);
  EXPECT_EQ(stages.text,
            "generate: a model of 1 layers has none for some of 2 stages of a pipeline: at most 1 "
            "would do\n")
      << "before there are ranks";
  expectRefused("generate", from + gpt2() + "--export " + file("run"), 1, "is there already");
  expectRefused("generate", from + gpt2() + "--prompt '\xff'", 1, "byte 0 is no UTF-8");
}

}  // namespace
}  // namespace tutti::parallel
