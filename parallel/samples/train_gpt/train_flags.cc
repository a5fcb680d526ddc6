// The flags of train_gpt; what they mean together is train_options.cc's.

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include <tutti/launch.h>
#include "parallel/huggingface/model_names.h"
#include "parallel/pipeline/builders.h"
#include "parallel/samples/device.h"
#include "parallel/samples/options/choice_flag.h"
#include "parallel/samples/options/config_file.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/options/list_flag.h"
#include "parallel/samples/train_gpt/train_options.h"
#include "src/base/one_of.h"

namespace tutti::parallel {

namespace {

/// CLI11 itself would take -1 for 2^64 - 1, and so whatever is larger.
std::string notUnsigned(std::string& text) {
  char* end = nullptr;
  errno = 0;
  std::strtoull(text.c_str(), &end, 0);
  const bool fits = errno == 0 && !text.empty() && *end == '\0' && text.find('-') == text.npos;
  return fits ? "" : text + " is not a whole number from 0 to 18446744073709551615";
}

void declare(CLI::App& app, TrainOptions& o) {
  const CLI::Validator positive = positiveSize(), notNegative = notNegativeSize();
  addConfigFlag(app);
  CLI::Option* text = app.add_option("--text", o.text,
                                     "text file to learn; the last 5% are for validation; "
                                     "default: a short one, to try things");
  CLI::Option* tokens =
      app.add_option("--tokens", o.tokens, "the same as a token file, which tokenize has made")
          ->excludes(text);
  CLI::Option* tokenizer =
      app.add_option("--tokenizer", o.tokenizer,
                     "tokenizer.json of the text or the token file; default: each byte is a token");
  CLI::Option* lines =
      app.add_flag(
             "--lines", o.lines,
             "each line of the text, whose tokens are bytes, is a document: no sample goes on "
             "into the next one, and what a line lacks to --context is padded and does not "
             "count")
          ->excludes(tokens)
          ->excludes(tokenizer);
  app.add_option(
         "--prompt-end", o.promptEnd,
         "a byte: what a line begins with, up to the first of these, is seen and not learned")
      ->check(
          [](const std::string& mark) { return mark.size() == 1 ? "" : mark + " is not one byte"; })
      ->needs(lines);
  addRanksFlag(app, o.ranks);
  app.add_option("--dp", o.dp,
                 "ranks that hold all of what --zero does not share out, each for "
                 "another part of the batch")
      ->check(CLI::Range(1, 1024));
  app.add_option("--fsdp", o.fsdp,
                 "ranks that share out the training state, for other parts of "
                 "the batch too")
      ->check(CLI::Range(1, 1024));
  app.add_option("--zero", o.zero,
                 "what they share out: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 "
                 "weights too; default: 3 with --fsdp, else 0")
      ->check(CLI::Range(0, 3));
  addReshardFlags(app, o.reshard);
  addListFlag(app, "--offload", o.offload,
              "what lies in other memory: none, or of optimizer, gradients (from --zero 2 on) "
              "and parameters (--zero 3) those that are named, with commas",
              base::oneOf({"none", "optimizer", "gradients", "parameters"}));
  app.add_option("--offload-folder", o.offloadFolder,
                 "in files there; default: in this host's memory, which on a host is the same, "
                 "and of which a GPU has parts at a time");
  app.add_option("--tp", o.tp,
                 "ranks that share out each layer's computation (tensor parallelism); they divide "
                 "the heads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--sp", o.model.sequenceParallel,
               "sequence parallelism: these ranks shard the activations between the layers' maps "
               "by position too");
  addChoiceFlag<Recompute>(
      app, "--recompute", o.model.recompute,
      {{"none", Recompute::None}, {"attention", Recompute::Attention}, {"block", Recompute::Block}},
      "activations that are not saved but recomputed in backward: none, those of attention, or all "
      "of each block");
  app.add_option(
         "--pp", o.pp,
         "ranks that share out the layers (pipeline parallelism); micro-batches go from one "
         "to the next")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--cp", o.cp, "ranks that share out each sequence (context parallelism)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  addChoiceFlag<ContextAttention>(
      app, "--cp-attention", o.model.contextAttention,
      {{"ring", ContextAttention::Ring}, {"heads", ContextAttention::Heads}},
      "how attention gets at what other ranks have of a sequence: ring, keys and values go round; "
      "or heads, positions are exchanged for heads, which these ranks divide");
  app.add_option("--ep", o.ep,
                 "ranks that share out the experts (expert parallelism), each for another part of "
                 "the batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--schedule", o.schedule,
                 "of these ranks: " + scheduleNames() + "; tutti schedule draws it")
      ->check(base::oneOf(scheduleWords()))
      ->capture_default_str();
  app.add_option("--chunks", o.chunks,
                 "stages of each of them: 2 or more of interleaved, 2 of zb-v, 1 of all others")
      ->check(CLI::PositiveNumber);
  addListFlag(app, "--stages", o.stages, "layers of each stage; default: as evenly as can be",
              CLI::Validator("INT"));
  addStepFlags(app, o.steps, o.batch);
  app.add_option("--validation-tokens", o.validationTokens,
                 "tokens of the text for validation that count, the first ones; 0: all")
      ->check(notNegative)
      ->capture_default_str();
  app.add_option("--micro-batches", o.microBatches,
                 "pieces of the batch in each round; default: the least multiple of the ranks from "
                 "4 on, or from 8 with --deterministic")
      ->check(positive);
  app.add_option("--rounds", o.rounds,
                 "times that a step adds its gradients over the ranks, each after that many "
                 "micro-batches")
      ->check(positive)
      ->capture_default_str();
  addModelFlags(app, o.model);
  addExpertFlags(app, o.model.experts);
  CLI::Option* named = app.add_option(
      "--model", o.named,
      "sizes of a model, with random weights: those of a folder with a config.json of "
      "transformers, or of " +
          modelNames());
  CLI::Option* initFrom =
      app.add_option("--init-from", o.initFrom,
                     "begin with the model and the weights of this Hugging Face folder, and with "
                     "its tokenizer unless --tokenizer says another");
  for (const char* size : {"--layers", "--width", "--heads", "--experts"}) {
    named->excludes(app.get_option(size));
    initFrom->excludes(app.get_option(size));
  }
  initFrom->excludes(named);
  app.add_option("--export", o.exportTo,
                 "at the end, a Hugging Face folder of the model, which is not there yet")
      ->excludes(app.get_option("--experts"));
  app.add_option("--optimizer", o.optimizer, "adamw, sgd, or momentum: sgd with 0.9 of it")
      ->check(base::oneOf({"adamw", "momentum", "sgd"}))
      ->capture_default_str();
  app.add_option("--lr", o.learningRate,
                 "peak learning rate; default 0.003 (adamw), 0.3 (sgd), 0.03 (momentum)")
      ->check(finiteNumber(false));
  app.add_option("--warmup", o.warmup, "steps of linear warm-up; default: a twentieth of --steps")
      ->check(notNegative);
  app.add_option("--weight-decay", o.weightDecay,
                 "of matrices; default 0.1 (adamw), 0 (sgd, momentum)")
      ->check(finiteNumber(true));
  app.add_option("--clip", o.clip, "largest global gradient norm; 0: no clipping")
      ->check(finiteNumber(true))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of first weights, sample order and generated text")
      ->check(CLI::Validator(notUnsigned, ""))
      ->capture_default_str();
  app.add_option("--device", o.device, kDeviceHelp)
      ->check(base::oneOf({"host", "cuda", "emulated"}))
      ->capture_default_str();
  CLI::Option* type = addChoiceFlag<DType>(
      app, "--type", o.type,
      {{"float32", DType::Float32}, {"bfloat16", DType::BFloat16}, {"float16", DType::Float16}},
      "element type of weights and activations in forward and backward; the weights that are "
      "updated stay float32");
  addChoiceFlag<DType>(
      app, "--gradients", o.gradients, {{"float32", DType::Float32}, {"bfloat16", DType::BFloat16}},
      "element type in which gradients are added: float32, or with --type bfloat16 that");
  app.add_option("--loss-scale", o.lossScaling.initial,
                 "with --type float16, what the loss's gradient is multiplied by at first: a power "
                 "of two")
      ->check(finiteNumber(false))
      ->needs(type)
      ->capture_default_str();
  app.add_option("--loss-scale-window", o.lossScaling.growthSteps,
                 "good steps after which it doubles; it is halved when gradients overflow; 0: it "
                 "stays as it is")
      ->check(notNegative)
      ->needs(type)
      ->capture_default_str();
  app.add_flag("--deterministic", o.deterministic,
               "the same bits on 1, 2, 4 and 8 ranks; on any power of two with the same "
               "--micro-batches");
  app.add_flag("--check-replicas", o.checkReplicas,
               "after each step, fail unless all ranks' weights are equal to the bit");
  app.add_option("--json", o.json, "write one JSON line a step to this file");
  app.add_option("--peak-flops", o.peakFlops,
                 "floating-point operations a second that a rank could do at most, for \"mfu\" in "
                 "these lines; default: measured, by a short GEMM of rank 0")
      ->check(finiteNumber(false));
  app.add_option(
      "--trace", o.trace,
      "what each rank did when, as a trace for Perfetto or chrome://tracing, at the end");
  CLI::Option* folder =
      app.add_option("--checkpoints", o.checkpoints, "folder for a checkpoint at the end");
  app.add_option("--save-every", o.saveEvery, "steps after which there is another")
      ->check(positive)
      ->needs(folder);
  app.add_option("--keep", o.keep, "so many of the newest stay; 0: all")
      ->check(notNegative)
      ->capture_default_str();
  app.add_flag("--async-checkpoints", o.asyncCheckpoints,
               "write those of --save-every while the training goes on, from a copy in memory: of "
               "the weights and the optimizer's state that a rank holds")
      ->needs(folder);
  app.add_flag("--resume", o.resume,
               "go on from the newest checkpoint, saved on any number of ranks; from the beginning "
               "if there is none")
      ->needs(folder);
  app.add_option("--generate", o.generate, "tokens of text to write at the end")
      ->check(notNegative)
      ->capture_default_str();
  app.add_option("--prompt", o.prompt, "what the generated text continues");
}

/// The sizes of --model. Rotary positions have no end, and random weights have seen none of them.
void takeNamed(TrainOptions& o) {
  ModelOptions model = modelOfFlag(o.named);
  if (o.contextGiven && std::holds_alternative<LlamaOptions>(model))
    model = withContext(model, o.model.context);
  takeSizes(o, "--model", model);
}

void fillDefaults(TrainOptions& o) {
  const bool adamW = o.optimizer == "adamw";
  if (o.learningRate == 0) o.learningRate = adamW ? 0.003 : o.optimizer == "momentum" ? 0.03 : 0.3;
  if (o.weightDecay < 0) o.weightDecay = adamW ? 0.1 : 0;
  if (o.warmup < 0) o.warmup = std::max<int64_t>(1, o.steps / 20);
  fillExperts(o.model.experts);
}

/// That a launcher has started this as one of; 0: there is none, or --ranks may still be more. What
/// is wrong with its variables planRanks() says.
int startedRanks() {
  try {
    const auto given = launchedRank();
    return given && given->size > 1 ? given->size : 0;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

std::optional<int> parse(int argc, char** argv, TrainOptions& options) {
  CLI::App app("Trains a small GPT on a text file, in parallel over ranks.", "train_gpt");
  addVersionFlag(app);
  declare(app, options);
  try {
    app.parse(argc, argv);
    options.contextGiven = app.count("--context") > 0;
    fillDefaults(options);
    if (!options.named.empty()) takeNamed(options);
    check(options.model);
    options.lossScaling.check();
    requireDeviceWord(options.device);
    require(options.tp > 1 || !options.model.sequenceParallel,
            "--sp is for the ranks of --tp, of which there is one");
    require(options.gradients == DType::Float32 || options.gradients == options.type,
            "--gradients bfloat16 is for --type bfloat16");
    // Else the model is not known yet.
    if (options.initFrom.empty()) checkLayout(options, startedRanks());
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    return exitCodeOf(app, e);
  } catch (const Error& e) {
    sayError("train_gpt", e.what());
    return 2;
  }
}

}  // namespace tutti::parallel
