// What train_gpt's flags about sharding make of a policy, and what they refuse by name.

#include "parallel/samples/train_gpt/train_options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/samples/train_gpt/train_text.h"
#include "parallel/tensor/check.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

TrainOptions parsed(const std::string& flags) {
  std::istringstream words("train_gpt --text x " + flags);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  TrainOptions options;
  EXPECT_EQ(parse(static_cast<int>(arguments.size()), arguments.data(), options), std::nullopt);
  return options;
}

std::string refusal(const std::string& flags) {
  try {
    policyOf(parsed(flags));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "taken";
}

TEST(TrainOptions, SayWhenWeightsAreGivenBack) {
  const auto reshard = [](const std::string& flags) { return policyOf(parsed(flags)).reshard; };
  EXPECT_EQ(reshard("").when, Reshard::AfterForward);
  EXPECT_EQ(reshard("--fsdp 2 --reshard after-forward").when, Reshard::AfterForward);
  EXPECT_EQ(reshard("--zero 3 --reshard never").when, Reshard::Never);
  EXPECT_EQ(reshard("--fsdp 2 --reshard after-backward").when, Reshard::AfterBackward);
  EXPECT_EQ(reshard("--fsdp 2 --reshard after-backward").backwards, 1);
  EXPECT_EQ(reshard("--fsdp 2 --reshard after-backward --backwards 3").backwards, 3);
  for (const std::string layout : {"", "--zero 2", "--fsdp 2 --zero 1", "--dp 2"})
    EXPECT_EQ(refusal(layout + " --reshard never"),
              "--reshard never: weights are gathered, and given back, with --zero 3, or --fsdp "
              "alone");
  for (const std::string when : {"", " --reshard never", " --reshard after-forward"})
    EXPECT_EQ(refusal("--fsdp 2 --backwards 2" + when),
              "--backwards 2 is about --reshard after-backward");
}

TEST(TrainOptions, SayWhatLiesElsewhere) {
  const auto offload = [](const std::string& flags) { return policyOf(parsed(flags)).offload; };
  for (const std::string flags : {"", "--offload none", "--fsdp 2 --offload none"}) {
    EXPECT_EQ(offload(flags).optimizer, Place::Device) << flags;
    EXPECT_EQ(offload(flags).gradients, Place::Device) << flags;
    EXPECT_EQ(offload(flags).parameters, Place::Device) << flags;
  }
  EXPECT_EQ(offload("--offload optimizer").optimizer, Place::Host);
  const Offload two = offload("--zero 2 --offload optimizer,gradients --offload-folder f");
  EXPECT_EQ(two.optimizer, Place::File);
  EXPECT_EQ(two.gradients, Place::File);
  EXPECT_EQ(two.parameters, Place::Device);
  EXPECT_EQ(two.folder, "f");
  EXPECT_EQ(offload("--fsdp 2 --offload parameters").parameters, Place::Host);
  EXPECT_EQ(offload("--fsdp 2 --offload parameters").optimizer, Place::Device);

  for (const std::string layout : {"", "--zero 1"})
    EXPECT_EQ(refusal(layout + " --offload optimizer,gradients"),
              "--offload gradients: they are shared out with --zero 2 or 3, or --fsdp alone");
  EXPECT_EQ(refusal("--zero 2 --offload parameters"),
            "--offload parameters: they are shared out with --zero 3, or --fsdp alone");
  EXPECT_EQ(refusal("--offload none,optimizer"), "--offload none is without optimizer");
  EXPECT_EQ(refusal("--offload optimizer,none"), "--offload none is without optimizer");
  for (const std::string flags : {"", "--offload none "})
    EXPECT_EQ(refusal(flags + "--offload-folder f"),
              "--offload-folder f: it is for what --offload names");
}

/// The first line of a refusal.
std::string said(std::vector<std::string> words) {
  words.insert(words.begin(), {"train_gpt", "--text", "x"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  TrainOptions options;
  testing::internal::CaptureStderr();
  EXPECT_EQ(parse(static_cast<int>(arguments.size()), arguments.data(), options), 2);
  const std::string printed = testing::internal::GetCapturedStderr();
  return printed.substr(0, printed.find('\n'));
}

TEST(TrainOptions, OfListsHaveNoEmptyWords) {
  EXPECT_EQ(parsed("--pp 3 --stages 2,1,1").stages, (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(parsed("--pp 3 --stages 2 --stages 1,1").stages, (std::vector<int>{2, 1, 1}));
  for (const std::string list : {"1,,2", ",1", "1,", ","})
    EXPECT_EQ(said({"--stages=" + list}),
              "train_gpt: --stages: \"" + list + "\": between its commas is nothing");
  EXPECT_EQ(said({"--zero", "2", "--offload", "optimizer,,gradients"}),
            "train_gpt: --offload: \"optimizer,,gradients\": between its commas is nothing");
  EXPECT_EQ(said({"--stages", "1,x"}),
            "train_gpt: The value x is not an allowed value for --stages");
}

TEST(TrainOptions, OfWordsAreRefusedWithWhatThereIs) {
  EXPECT_EQ(said({"--offload", "optimizer,weights"}),
            "train_gpt: --offload: weights is not none, optimizer, gradients or parameters");
  EXPECT_EQ(said({"--optimizer", "adam"}),
            "train_gpt: --optimizer: adam is not adamw, momentum or sgd; did you mean adamw?");
  EXPECT_EQ(said({"--schedule", "interleave"}),
            "train_gpt: --schedule: interleave is not naive, gpipe, 1f1b, interleaved, zb-h1 or "
            "zb-v; did you mean interleaved?");
  EXPECT_EQ(said({"--type", "flaot16"}),
            "train_gpt: --type: flaot16 is not float32, bfloat16 or float16; did you mean "
            "float16?");
  EXPECT_EQ(said({"--recompute", "all"}),
            "train_gpt: --recompute: all is not none, attention or block");
  EXPECT_EQ(said({"--optimzer", "sgd"}),
            "train_gpt: there is no flag --optimzer; did you mean --optimizer?");
  EXPECT_EQ(said({"--optimzer=sgd"}),
            "train_gpt: there is no flag --optimzer; did you mean --optimizer?");
  EXPECT_EQ(said({"--nothing-like-it"}), "train_gpt: there is no flag --nothing-like-it");
  EXPECT_EQ(said({"word"}), "train_gpt: there is no place for the word word");
}

TEST(TrainOptions, OfWordsAreWhatTheyStandFor) {
  EXPECT_EQ(parsed("--type bfloat16").type, DType::BFloat16);
  EXPECT_EQ(parsed("--recompute block").model.recompute, Recompute::Block);
  EXPECT_EQ(parsed("--cp-attention heads").model.contextAttention, ContextAttention::Heads);
}

template <class Call>
std::string refusalOf(const Call& call) {
  try {
    call();
    return "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
}

TEST(TrainOptions, SayHowLayersAreSharedOut) {
  const TrainOptions o = parsed("--pp 2 --dp 3 --schedule zb-v --layers 8 --stages 3,2,2,1");
  EXPECT_EQ(pipelineOf(o).schedule, ScheduleKind::ZeroBubbleV);
  EXPECT_EQ(pipelineOf(o).layers, (std::vector<int>{3, 2, 2, 1}));
  EXPECT_EQ(askedRanks(o), 6);
  EXPECT_EQ(meshOf(o, 6)[Axis::Pipeline], 2);
  EXPECT_EQ(meshOf(o, 6)[Axis::Data], 3);
  EXPECT_EQ(pipelineOf(parsed("--pp 2 --schedule interleaved --chunks 2 --layers 4")).chunks, 2);
  EXPECT_EQ(pipelineOf(parsed("")).schedule, ScheduleKind::OneFOneB);

  const auto refused = [](const std::string& flags) {
    return refusalOf([&] { checkPipeline(parsed(flags)); });
  };
  TrainOptions wrong = parsed("--pp 2");
  wrong.schedule = "1f2b";
  EXPECT_EQ(refusalOf([&] { checkPipeline(wrong); }),
            "--schedule 1f2b is not naive, gpipe, 1f1b, interleaved, zb-h1 or zb-v; did you mean "
            "1f1b?");
  EXPECT_EQ(refused("--pp 4"), "taken");
  wrong = parsed("--pp 4");
  wrong.pp = 5;
  EXPECT_EQ(refusalOf([&] { checkPipeline(wrong); }),
            "a model of 4 layers has none for some of 5 stages of a pipeline: at most 4 would do");
  wrong = parsed("--pp 2");
  wrong.stages = {2, 1};
  EXPECT_EQ(refusalOf([&] { checkPipeline(wrong); }),
            "the stages have 3 layers, and the model has 4");
  wrong.chunks = 2;
  EXPECT_EQ(refusalOf([&] { checkPipeline(wrong); }), "schedule 1f1b has 1 chunk a rank, not 2");

  EXPECT_EQ(refusalOf([] { meshOf(parsed("--pp 2"), 3); }), "--pp 2 does not divide 3 ranks");
  EXPECT_EQ(refusalOf([] { meshOf(parsed("--pp 2 --dp 3"), 4); }),
            "--dp 3 does not divide 4 ranks by --pp 2");
  wrong = parsed("--pp 2 --dp 2 --fsdp 2");
  wrong.ranks = 4;
  EXPECT_EQ(refusalOf([&] { askedRanks(wrong); }),
            "--ranks 4, but --dp 2, --fsdp 2 and --pp 2 are 8");
}

/// What a file with these lines makes of `flags`, or what is printed about it.
struct FromFile {
  TrainOptions options;
  std::optional<int> exitCode;
  std::string printed;
};
FromFile fromFile(const std::string& lines, const std::string& flags = "") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.path() / "run.toml";
  std::ofstream(path) << "text = \"x\"\n" << lines;
  std::istringstream words("train_gpt --config " + path + " " + flags);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  FromFile result;
  testing::internal::CaptureStderr();
  result.exitCode = parse(static_cast<int>(arguments.size()), arguments.data(), result.options);
  result.printed = testing::internal::GetCapturedStderr();
  if (const size_t at = result.printed.find(path); at != std::string::npos)
    result.printed.replace(at, path.size(), "FILE");
  return result;
}

// The parser takes for granted that a key begins there, where it has assertions.
TEST(TrainOptions, ComeFromFilesThatTheParserRefuses) {
  for (const char* lines : {"[\x1F", "[\n", "[.", "a.\x1F = 1", "[a.\xFF]"}) {
    const FromFile got = fromFile(lines);
    EXPECT_EQ(got.exitCode, 2) << lines;
    EXPECT_TRUE(got.printed.starts_with("train_gpt: FILE, line 2: ")) << got.printed;
  }
}

TEST(TrainOptions, ComeFromAFileToo) {
  const FromFile read = fromFile(
      "# a run\npp = 2\nstages = [3, 1]\nschedule = 'zb-h1'\nlr = 2.5e-3\ndeterministic = true\n"
      "sp = false\noffload = [\"optimizer\"]\nseed = 18446744073709551615\n",
      "--tp 2 --lr 0.5");
  EXPECT_EQ(read.exitCode, 2) << "a TOML integer has 63 bits";
  const FromFile good = fromFile(
      "# a run\npp = 2\nstages = [3, 1]\nschedule = 'zb-h1'\nlr = 2.5e-3\ndeterministic = true\n"
      "sp = false\noffload = [\"optimizer\"]\nweight-decay = 1e-1\nclip = 0.1234567890123\n",
      "--tp 2 --lr 0.5");
  ASSERT_EQ(good.exitCode, std::nullopt) << good.printed;
  EXPECT_EQ(good.options.text, "x");
  EXPECT_EQ(good.options.pp, 2);
  EXPECT_EQ(good.options.tp, 2);
  EXPECT_EQ(good.options.stages, (std::vector<int>{3, 1}));
  EXPECT_EQ(good.options.schedule, "zb-h1");
  EXPECT_EQ(good.options.learningRate, 0.5) << "the command line goes before the file";
  EXPECT_EQ(good.options.weightDecay, 0.1);
  EXPECT_EQ(good.options.clip, 0.1234567890123);
  EXPECT_TRUE(good.options.deterministic);
  EXPECT_FALSE(good.options.model.sequenceParallel);
  EXPECT_EQ(good.options.offload, std::vector<std::string>{"optimizer"});
}

TEST(TrainOptions, OfAFileAreRefusedByLine) {
  const auto said = [](const std::string& lines) {
    const FromFile read = fromFile(lines);
    EXPECT_EQ(read.exitCode, 2) << lines;
    return read.printed.substr(0, read.printed.find('\n'));
  };
  EXPECT_EQ(said("tq = 2"), "train_gpt: FILE, line 2: tq is no flag of train_gpt");
  EXPECT_EQ(said("optimzer = 'sgd'"),
            "train_gpt: FILE, line 2: optimzer is no flag of train_gpt; did you mean --optimizer?");
  EXPECT_EQ(said("[sizes]\nlayers = 2"), "train_gpt: FILE, line 2: sizes is no flag of train_gpt");
  EXPECT_EQ(said("\ntp = [[2]]"),
            "train_gpt: FILE, line 3: tp is neither text, a number, true or false, nor an array of "
            "these");
  EXPECT_EQ(said("lr = 1979-05-27"),
            "train_gpt: FILE, line 2: lr is neither text, a number, true or false, nor an array of "
            "these");
  EXPECT_EQ(said("stages = []"), "train_gpt: FILE, line 2: stages is an empty array");
  EXPECT_EQ(said("stages = [3, \"\"]"),
            "train_gpt: FILE, line 2: --stages: \"\": between its commas is nothing");
  EXPECT_EQ(said("stages = \"3,,1\""),
            "train_gpt: FILE, line 2: --stages: \"3,,1\": between its commas is nothing");
  EXPECT_EQ(said("deterministic = 3"),
            "train_gpt: FILE, line 2: deterministic is neither true nor false");
  EXPECT_EQ(said("\n\ntp = \"x\""),
            "train_gpt: FILE, line 4: --tp: Value x not in range 1 to 1024");
  EXPECT_EQ(said("lr = true"),
            "train_gpt: FILE, line 2: --lr: true is not a finite number above 0");
  EXPECT_EQ(said("deterministic = 'true'"),
            "train_gpt: FILE, line 2: deterministic is neither true nor false");
  EXPECT_EQ(said("layers = [1, 2]").substr(0, 34), "train_gpt: FILE, line 2: --layers:");
  EXPECT_EQ(said("type = \"int\""),
            "train_gpt: FILE, line 2: --type: int is not float32, bfloat16 or float16");
  EXPECT_EQ(said("prompt = \"a\\u0000b\""), "train_gpt: FILE, line 2: prompt has a zero byte");
  for (const std::string key : {"help", "config"})
    EXPECT_EQ(said(key + " = true"),
              "train_gpt: FILE, line 2: " + key + " is for the command line alone");
  EXPECT_EQ(said("tp = \n").substr(0, 44), "train_gpt: FILE, line 2: Error while parsing");
  EXPECT_EQ(said("tp = 2\ntp = 3").substr(0, 25), "train_gpt: FILE, line 3: ");
  EXPECT_EQ(said(std::string(1 << 20, '#')),
            "train_gpt: FILE has more than 1048576 bytes, and no flags need so many");
}

TEST(TrainOptions, TakeAModelByName) {
  const TrainOptions gpt = parsed("--model gpt2 --recompute block --tp 2 --sp");
  EXPECT_FALSE(gpt.llama);
  EXPECT_EQ(gpt.model.layers, 12);
  EXPECT_EQ(gpt.model.width, 768);
  EXPECT_EQ(gpt.model.vocabulary, 50257);
  EXPECT_EQ(gpt.model.context, 128);  // train_gpt's own, which is less than the model's
  EXPECT_EQ(gpt.model.recompute, Recompute::Block);
  EXPECT_TRUE(gpt.model.sequenceParallel);
  const TrainOptions llama = parsed("--model llama-8b --context 32768");
  ASSERT_TRUE(llama.llama);
  EXPECT_EQ(llama.llama->kvHeads, 8);
  EXPECT_EQ(contextOf(modelOf(llama)), 32768);
  EXPECT_EQ(parsed("--model mixtral-8x7b --ep 8").llama->experts.count, 8);
  const auto refused = [](const std::string& flags) {
    std::istringstream words("train_gpt --text x " + flags);
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    TrainOptions options;
    testing::internal::CaptureStderr();
    EXPECT_EQ(parse(static_cast<int>(arguments.size()), arguments.data(), options), 2) << flags;
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(refused("--model gpt9").find("--model gpt9 is neither"), std::string::npos);
  EXPECT_NE(refused("--model gpt2 --context 2048").find("--context 2048: the model of --model"),
            std::string::npos);
  EXPECT_NE(refused("--model gpt2 --layers 2").find("--model"), std::string::npos);
  EXPECT_NE(refused("--gradients bfloat16").find("is for --type bfloat16"), std::string::npos);
}

TEST(TrainOptions, SayHowManyExperts) {
  const auto experts = [](const std::string& flags) { return parsed(flags).model.experts; };
  EXPECT_EQ(experts("").count, 0);
  EXPECT_EQ(experts("--experts 4"), (ExpertOptions{.count = 4}));
  EXPECT_EQ(
      experts("--experts 4 --experts-per-token 1 --capacity 1.25 --aux-loss 0.1 --z-loss 1e-3 "
              "--experts-every 2"),
      (ExpertOptions{.count = 4,
                     .perToken = 1,
                     .capacityFactor = 1.25,
                     .auxLoss = 0.1,
                     .zLoss = 1e-3,
                     .every = 2,
                     .normalized = false}));
  EXPECT_EQ(meshOf(parsed("--experts 4 --ep 2"), 4).describe(), "dp=2,ep=2");
  TrainOptions wrong = parsed("--experts 4");
  wrong.ep = 3;
  EXPECT_EQ(refusalOf([&] { checkLayout(wrong, 3); }),
            "4 experts cannot be dealt out to 3 ranks along ep: 2 or 4 would do; nearest to it are "
            "--dp 3");
  EXPECT_EQ(refusalOf([&] { checkLayout(wrong, 0); }),
            "4 experts cannot be dealt out to 3 ranks along ep: 2 or 4 would do; nearest to it are "
            "--ep 4, or --ep 2, or one rank");
  wrong = parsed("--tp 2");
  wrong.ep = 2;
  EXPECT_EQ(refusalOf([&] { checkLayout(wrong, 4); }),
            "--ep 2 shares out experts, and the model has none; nearest to it are --dp 2 --tp 2, "
            "or --dp 4, or --tp 4");
  wrong.model.experts.count = 2;
  EXPECT_EQ(refusalOf([&] { checkLayout(wrong, 4); }), "taken");
  wrong.llama = LlamaOptions{.heads = 4, .kvHeads = 4};  // whatever --experts would be of a GPT
  EXPECT_EQ(refusalOf([&] { checkLayout(wrong, 4); }),
            "--ep 2 shares out experts, and the model has none; nearest to it are --dp 2 --tp 2, "
            "or --dp 4, or --tp 4");
  wrong = parsed("--cp-attention heads");
  wrong.cp = 3;
  EXPECT_EQ(refusalOf([&] { checkLayout(wrong, 6); }),
            "4 heads, 4 of keys and values, cannot be exchanged among 3 ranks of context "
            "parallelism, which have to divide them: with ring attention any number will do; "
            "nearest to it are --dp 3 --cp 2, or --dp 6");
}

// 5 tokens have 4 labels.
TEST(TrainOptions, SayHowMuchIsEvaluated) {
  std::vector<uint8_t> text(1000, 'x');
  text.back() = 'y';
  const auto labels = [&](const std::string& flags) {
    return validationWindows(parsed(flags), text).countedTokens();
  };
  EXPECT_EQ(labels(""), 999);
  EXPECT_EQ(labels("--validation-tokens 0"), 999);
  EXPECT_EQ(labels("--validation-tokens 5"), 4);
  EXPECT_EQ(labels("--validation-tokens 1000"), 999);
  EXPECT_EQ(labels("--validation-tokens 2000"), 999);
  const auto refused = [&](const std::string& flags) { return refusalOf([&] { labels(flags); }); };
  EXPECT_EQ(refused("--validation-tokens 1"),
            "of the 1 tokens for validation, at the end of the text, none counts: a larger "
            "--validation-tokens is needed");
  EXPECT_EQ(refused("--lines --prompt-end y"),
            "of the 1000 tokens for validation, at the end of the text, none counts: a longer text "
            "or shorter prompts are needed");
  EXPECT_EQ(refused("--lines --prompt-end x"), "taken");
  EXPECT_EQ(said({"--validation-tokens", "-1"}),
            "train_gpt: --validation-tokens: Value -1 not in range 0 to 1000000000");
}

}  // namespace
}  // namespace tutti::parallel
