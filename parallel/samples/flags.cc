#include "parallel/samples/flags.h"

namespace tutti::parallel {

namespace {
constexpr int kMost = 1'000'000'000;
}  // namespace

CLI::Validator positiveSize() { return CLI::Range(1, kMost, "POSITIVE"); }
CLI::Validator notNegativeSize() { return CLI::Range(0, kMost, "NONNEGATIVE"); }

void addRanksFlag(CLI::App& app, int& ranks) {
  app.add_option("--ranks", ranks, "processes to start on this machine")
      ->check(CLI::Range(1, 1024));
}

void addStepFlags(CLI::App& app, int64_t& steps, int64_t& batch) {
  app.add_option("--steps", steps, "optimizer steps")->check(positiveSize())->capture_default_str();
  app.add_option("--batch", batch, "sequences of one step, over all ranks")
      ->check(positiveSize())
      ->capture_default_str();
}

void addModelFlags(CLI::App& app, GptOptions& model) {
  const auto add = [&](const char* flag, int64_t& value, const char* about) {
    app.add_option(flag, value, about)->check(positiveSize())->capture_default_str();
  };
  add("--context", model.context, "bytes that the model sees at once");
  add("--layers", model.layers, "transformer blocks");
  add("--width", model.width, "width of the residual stream");
  add("--heads", model.heads, "attention heads; they divide the width");
}

}  // namespace tutti::parallel
