#include "parallel/samples/train_options.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <CLI/CLI.hpp>

#include "parallel/engine/engine.h"

namespace tutti::parallel {

namespace {

void declare(CLI::App& app, TrainOptions& o) {
  const auto positive = CLI::PositiveNumber;
  const auto notNegative = CLI::NonNegativeNumber;
  app.add_option("--text", o.text, "text file to learn; the last 5% are for validation")
      ->required();
  app.add_option("--ranks", o.ranks, "processes to start on this machine")
      ->check(CLI::Range(1, 1024));
  app.add_option("--steps", o.steps, "optimizer steps")->check(positive)->capture_default_str();
  app.add_option("--batch", o.batch, "sequences of one step, over all ranks")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--micro-batches", o.microBatches,
                 "pieces of the batch; default: the least multiple of the ranks from 4 on, or from "
                 "8 with --deterministic")
      ->check(positive);
  app.add_option("--context", o.model.context, "bytes that the model sees at once")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--layers", o.model.layers, "transformer blocks")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--width", o.model.width, "width of the residual stream")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--heads", o.model.heads, "attention heads; they divide the width")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--optimizer", o.optimizer, "adamw or sgd")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->capture_default_str();
  app.add_option("--lr", o.learningRate, "peak learning rate; default 0.003 (adamw), 0.3 (sgd)")
      ->check(positive);
  app.add_option("--warmup", o.warmup, "steps of linear warm-up; default: a twentieth of --steps")
      ->check(notNegative);
  app.add_option("--weight-decay", o.weightDecay, "of matrices; default 0.1 (adamw), 0 (sgd)")
      ->check(notNegative);
  app.add_option("--clip", o.clip, "largest global gradient norm; 0: no clipping")
      ->check(notNegative)
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of first weights, sample order and generated text")
      ->capture_default_str();
  app.add_flag("--deterministic", o.deterministic,
               "the same bits on 1, 2, 4 and 8 ranks; on any power of two with the same "
               "--micro-batches");
  app.add_flag("--check-replicas", o.checkReplicas,
               "after each step, fail unless all ranks' weights are equal to the bit");
  app.add_option("--json", o.json, "write one JSON line a step to this file");
  app.add_option("--generate", o.generate, "bytes of text to write at the end")
      ->check(notNegative)
      ->capture_default_str();
  app.add_option("--prompt", o.prompt, "what the generated text continues");
}

void fillDefaults(TrainOptions& o) {
  const bool sgd = o.optimizer == "sgd";
  if (o.learningRate == 0) o.learningRate = sgd ? 0.3 : 0.003;
  if (o.weightDecay < 0) o.weightDecay = sgd ? 0 : 0.1;
  if (o.warmup < 0) o.warmup = std::max<int64_t>(1, o.steps / 20);
}

}  // namespace

std::optional<int> parse(int argc, char** argv, TrainOptions& options) {
  CLI::App app("Trains a small GPT on the bytes of a text file, data-parallel over ranks.",
               "train_gpt");
  declare(app, options);
  try {
    app.parse(argc, argv);
    fillDefaults(options);
    check(options.model);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const Error& e) {
    std::fprintf(stderr, "train_gpt: %s\n", e.what());
    return 2;
  }
}

void checkSplit(const TrainOptions& options, int ranks) {
  const int groups = checkReductionGroups(options.microBatches, ranks, options.deterministic);
  require(options.batch >= groups, "--batch ", options.batch, " cannot be cut into ", groups,
          " micro-batches: a larger --batch or a smaller --micro-batches is needed");
}

void checkFiles(const TrainOptions& options) {
  readBytes(options.text, options.model.context);
  if (options.json.empty()) return;
  std::FILE* json = std::fopen(options.json.c_str(), "a");
  require(json != nullptr, "--json ", options.json, " cannot be written: ", std::strerror(errno));
  std::fclose(json);
}

}  // namespace tutti::parallel
