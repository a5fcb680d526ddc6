// tokenize as its user meets it, and train_gpt on what it makes. The programs' folder and that of
// the tokenizers are this test's arguments.

#include <gtest/gtest.h>

#include <string>

#include "parallel/data/token_file.h"
#include "tests/parallel/samples/sample_output.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string programs, tokenizers;
const tests::Arguments commandLine{{"FOLDER_OF_PROGRAMS", &programs},
                                   {"FOLDER_OF_TOKENIZERS", &tokenizers}};

class Tokenize : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 700; ++i) text += "line " + std::to_string(i * i % 97) + " of the text, ";
    tests::setContents(file("text"), text);
    tests::setContents(file("zero"), text + std::string(1, '\0') + text);
    tests::setContents(file("latin1"), text + "\xe9" + text);
    tests::setContents(file("empty"), "");
  }
  std::string file(const std::string& name) const { return folder_.path() / name; }
  static Output run(const std::string& program, const std::string& arguments) {
    return runProgram(programs + "/" + program + " " + arguments);
  }
  static void expectRefused(const std::string& program, const std::string& arguments, int exitCode,
                            const std::string& named) {
    const Output output = run(program, arguments);
    EXPECT_EQ(output.exitCode, exitCode) << output.text;
    EXPECT_NE(output.text.find(named), std::string::npos) << output.text << "\nnot: " << named;
    EXPECT_EQ(output.count("\n"), exitCode == 1 ? 1 : output.count("\n")) << output.text;
  }
  std::string gpt2() const { return " --tokenizer " + tokenizers + "/gpt2.json"; }
  std::string training(const std::string& more) const {
    return "--layers 1 --width 32 --heads 2 --context 16 --batch 8 --steps 3 --deterministic " +
           more;
  }
  /// The last line of a training without its time.
  static std::string result(const Output& output) {
    EXPECT_EQ(output.exitCode, 0) << output.text;
    return output.lastLine().substr(0, output.lastLine().find(" after "));
  }

  tests::TemporaryFolder folder_;
};

TEST_F(Tokenize, MakesAFileAndChecksIt) {
  const Output made =
      run("tokenize", gpt2() + " --separator '<|endoftext|>' --text " + file("text") + " --text " +
                          file("text") + " --output " + file("a.tokens"));
  EXPECT_EQ(made.exitCode, 0) << made.text;
  EXPECT_NE(made.text.find(" tokens of 2 bytes, a vocabulary of 435, tokenizer "),
            std::string::npos)
      << made.text;
  const Output checked = run("tokenize", "--check " + file("a.tokens"));
  EXPECT_EQ(checked.exitCode, 0) << checked.text;
  EXPECT_EQ(made.text.find(checked.text), 0u) << checked.text;
  std::string bytes = tests::contentsOf(file("a.tokens"));
  bytes[200] ^= 4;
  tests::setContents(file("a.tokens"), bytes);
  expectRefused("tokenize", "--check " + file("a.tokens"), 1, ": bytes 128 to ");
}

TEST_F(Tokenize, RefusesByName) {
  const Output lost = runProgram("(" + programs + "/tokenize --help >/dev/full)");
  EXPECT_EQ(lost.exitCode, 1);
  EXPECT_EQ(lost.text, "tokenize: standard output cannot be written: No space left on device\n");
  const std::string to = " --output " + file("x");
  expectRefused("tokenize", "", 1, "--text or --check is needed");
  expectRefused("tokenize", "--text " + file("text"), 2, "--output");
  expectRefused("tokenize", "--text " + file("absent") + to, 1, file("absent"));
  expectRefused("tokenize", "--text '" + file("a\x1b[2J") + "'" + to, 1, file("a?[2J"));
  expectRefused("tokenize", "--text " + file("empty") + to, 1, file("empty") + " is empty");
  expectRefused("tokenize", "--text " + file("zero") + to, 1, ": byte 14589 is 0: this is binary");
  expectRefused("tokenize", gpt2() + " --text " + file("latin1") + to, 1,
                file("latin1") + ": byte 14589 is no UTF-8");
  expectRefused("tokenize", gpt2() + " --separator 'two words' --text " + file("text") + to, 1,
                "--separator two words is ");
  expectRefused("tokenize", "--text " + file("text") + " --output " + file("empty"), 1,
                file("empty"));
  expectRefused("tokenize", "--tokenizer " + file("text") + " --text " + file("text") + to, 1,
                file("text") + ": this is no JSON");
  expectRefused("tokenize", "--check " + file("text"), 1, "magic: this is no token file");
  EXPECT_FALSE(std::filesystem::exists(file("x")));
}

// A text, its token file, and several ranks: one training, to the bit.
TEST_F(Tokenize, TrainsTheSameFromAFile) {
  const Output made =
      run("tokenize", gpt2() + " --text " + file("text") + " --output " + file("a.tokens"));
  ASSERT_EQ(made.exitCode, 0) << made.text;
  const std::string text = "--text " + file("text") + gpt2(),
                    tokens = "--tokens " + file("a.tokens") + gpt2();
  const Output fromText = run("train_gpt", training("--generate 20 " + text));
  EXPECT_NE(result(fromText).find("validation loss "), std::string::npos) << fromText.text;
  EXPECT_NE(result(fromText).find(" nats a token"), std::string::npos) << fromText.text;
  const auto withoutTimes = [](const Output& output) {
    return output.text.substr(output.text.find("\n\n"),
                              output.text.find(" after ") - output.text.find("\n\n"));
  };
  const Output fromFile = run("train_gpt", training("--generate 20 " + tokens));
  EXPECT_EQ(withoutTimes(fromFile), withoutTimes(fromText));
  for (const std::string layout : {"--ranks 2", "--fsdp 4"})
    EXPECT_EQ(withoutTimes(run("train_gpt", training("--generate 20 " + layout + " " + tokens))),
              withoutTimes(fromText))
        << layout;
}

TEST_F(Tokenize, ATrainingRefusesAFileOfAnotherTokenizer) {
  const std::string tokens = "--tokens " + file("a.tokens");
  ASSERT_EQ(run("tokenize", "--text " + file("text") + " --output " + file("a.tokens")).exitCode,
            0);
  EXPECT_EQ(run("train_gpt", training("--generate 0 " + tokens)).exitCode, 0);
  {
    TokenFileWriter writer(file("more.tokens"), 1'000'000, "bytes");  // of which there are 256
    writer.add(std::vector<int32_t>(1000, 999'999));
    writer.finish();
  }
  expectRefused("train_gpt", training("--tokens " + file("more.tokens")), 1,
                "more.tokens: vocabulary: it is 1000000, and its tokenizer has 256");
  expectRefused("train_gpt", training(tokens + gpt2()), 1, "was made with tokenizer bytes, and");
  expectRefused("train_gpt", training(tokens + " --text x"), 2, "--text");
  expectRefused("train_gpt", "--context 100000 " + tokens, 1, "too few for a context");
  expectRefused("train_gpt", training(tokens + " --json " + file("a.tokens")), 1,
                " is the token file: it would be overwritten");
  std::string bytes = tests::contentsOf(file("a.tokens"));
  bytes[200] ^= 4;
  tests::setContents(file("a.tokens"), bytes);
  const Output damaged = run("train_gpt", training(tokens));
  EXPECT_EQ(damaged.exitCode, 1);
  EXPECT_NE(damaged.text.find(": bytes 128 to "), std::string::npos) << damaged.text;
}

}  // namespace
}  // namespace tutti::parallel
