#include "parallel/samples/sample.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>

#include "parallel/checkpoint/pending_file.h"
#include "parallel/engine/describe.h"
#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/mesh/redistribute.h"
#include "parallel/samples/device.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/ranks.h"
#include "parallel/samples/reports/progress.h"
#include "src/base/one_of.h"

namespace tutti::parallel {

namespace {

/// Fills `options`; returns an exit code when there is nothing more to do.
std::optional<int> parse(int argc, char** argv, const Sample& sample, SampleOptions& options) {
  CLI::App app(sample.about, sample.name);
  addVersionFlag(app);
  addRanksFlag(app, options.ranks);
  app.add_option("--device", options.device,
                 std::string(kDeviceHelp) + "; dry only says what rank 0 would hold and send")
      ->check(base::oneOf({"host", "cuda", "emulated", "dry"}))
      ->capture_default_str();
  sample.flags(app, options);
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return exitCodeOf(app, error);
  }
}

/// Rank 0's part without data: two steps, of which the second is like all that follow.
void trainDry(const Sample& sample, SampleOptions options, int ranks, bool quiet) {
  const DeviceKind kind = kindOf(options.device);
  DeviceMesh mesh = DeviceMesh::dry(sample.mesh(ranks), 0, kind);
  DryKernels kernels(kind);
  options.steps = 2;
  SampleRank rank(mesh, kernels, options, quiet);
  sample.train(rank);
}

void trainAsOneOf(const Sample& sample, const SampleOptions& options, int ranks) {
  DeviceMesh mesh =
      joinMesh(sample.mesh(ranks), options.device, options.deterministic, sample.gpuBlocks);
  const auto kernels = kernelsFor(mesh);
  SampleRank rank(mesh, *kernels, options);
  sample.train(rank);
}

int run(int argc, char** argv, const Sample& sample, const SampleOptions& options) {
  const bool threads = static_cast<bool>(sample.trainOnThreads);
  if (threads || options.device == "dry") {
    const int ranks = std::max(1, options.ranks);
    trainDry(sample, options, ranks, options.device != "dry");
    if (options.device != "dry") sample.trainOnThreads(options, ranks);
    return 0;
  }
  const RankPlan plan = planRanks(options.ranks);
  if (plan.launch || plan.ranks == 1) trainDry(sample, options, plan.ranks, true);
  if (plan.launch) return launchRanks(argc, argv, plan.ranks);
  trainAsOneOf(sample, options, plan.ranks);
  return 0;
}

}  // namespace

void addTrainingFlags(CLI::App& app, SampleOptions& options) {
  addStepFlags(app, options.steps, options.batch);
  addModelFlags(app, options.model);
  app.add_flag("--deterministic", options.deterministic, "the same bits on 1, 2, 4 and 8 ranks");
}

void SampleRank::show(int64_t step, const StepReport& report, int digits) {
  const Collectives now = mesh.counters();
  step_ = since(before_, now);
  before_ = now;
  if (mesh.dry()) return;
  char loss[32];
  std::snprintf(loss, sizeof(loss), "%.*g", digits, report.loss);
  say(message("step ", step + 1, "/", options.steps, "  loss ", loss, "\n"));
}

void SampleRank::showUse(const Engine& engine) const {
  say(message("rank 0 of ", mesh.shape().describe(), " ", describe(engine.memory()),
              describe(step_)));
}

void SampleRank::say(const std::string& text) const {
  if (!speaks()) return;
  std::fputs(text.c_str(), stdout);
  flushOutput();
}

void SampleRank::write(const char* flag, const std::string& path, const std::string& text) const {
  if (mesh.rank() != 0) return;
  naming(flag, [&] { quiet_ ? requireReplaceable(path) : replaceText(path, text); });
}

void SampleRank::note(const std::string& text) const {
  if (speaks()) std::fprintf(stderr, "%s\n", text.c_str());
}

Tensor rearranged(DeviceMesh& mesh, const Tensor& x, const Shape& global, const Layout& to,
                  Arena& memory) {
  return redistribute(Purpose::SampleTensor, mesh, x, global, to, memory);
}

std::vector<uint8_t> sampleText() {
  std::string text;
  for (int i = 0; i < 700; ++i) text += message("line ", i * i % 97, " of the text, ");
  return {text.begin(), text.end()};
}

int runSample(int argc, char** argv, const Sample& sample) {
  SampleOptions options;
  if (const auto exitCode = parse(argc, argv, sample, options)) return *exitCode;
  host::setBlasThreads(1);  // ranks are the parallelism; one thread each keeps the bits
  try {
    if (options.device != "dry") deviceFor(options.device, 0);  // there is one
    return run(argc, argv, sample, options);
  } catch (const std::exception& error) {
    sayError(sample.name, error.what());
    return 1;
  }
}

}  // namespace tutti::parallel
