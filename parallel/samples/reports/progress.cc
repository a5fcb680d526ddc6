#include "parallel/samples/reports/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/pending_file.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {

namespace {
constexpr double kTerminalSeconds = 0.1;  // between rewritten lines
constexpr double kLogSeconds = 10;        // between lines that stay
constexpr double kValidationSeconds = 2;  // until its first line

constexpr std::string_view kJsonBegin = "{\"step\":";  // of a line

/// Lines are cut off of this file, so it must be one of a training.
void requireLog(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  std::string begin(kJsonBegin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::ssize(begin));
  begin.resize(static_cast<size_t>(file.gcount()));
  require(kJsonBegin.starts_with(begin), path,
          " does not begin with a step of a training: --resume goes on with no other file");
}

/// Whether it is a whole line of a step up to this one.
bool isUpTo(int64_t last, const std::string& line) {
  const OrderedJson json = OrderedJson::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step")) return false;
  const OrderedJson& step = json.at("step");
  return step.is_number_unsigned() && std::cmp_less_equal(step.get<uint64_t>(), last);
}

/// Adds members to a step's line; none where there are no experts.
void addRouter(const RouterReport& router, OrderedJson& line) {
  if (router.loads.empty()) return;
  line["balance_loss"] = router.balance;
  line["z_loss"] = router.z;
  line["dropped"] = router.dropped() / router.choices;
  line["expert_loads"] = router.loads;
}

/// Of one token, in forward and backward: scores and what they weigh, each 2 operations forward and
/// 4 backward for each element of a row of the context. The causal half is not left out. Source:
/// Chowdhery et al., "PaLM", appendix B.
double attentionFlops(const ModelOptions& options) {
  return std::visit(
      [](const auto& model) {
        return 12.0 * static_cast<double>(model.layers) * static_cast<double>(model.width) *
               static_cast<double>(model.context);
      },
      options);
}

/// Of a mixture's parameters those that a token has no use for, as it goes to some experts only.
double idleParameters(const ModelOptions& options) {
  return std::visit(
      [](const auto& model) {
        if (model.experts.count == 0) return 0.0;
        const double used =
            static_cast<double>(model.experts.perToken) / static_cast<double>(model.experts.count);
        return expertParameterCount(model) * (1 - used);
      },
      options);
}

/// Of one thread, in float32: the best of some products of matrices that fit its caches.
double measuredFlops() {
  constexpr int64_t kSize = 384;
  constexpr int kProducts = 8;
  HostKernels kernels;
  Arena memory("peak");
  const Tensor a = memory.allocate(DType::Float32, {kSize, kSize}),
               b = memory.allocate(DType::Float32, {kSize, kSize}),
               c = memory.allocate(DType::Float32, {kSize, kSize});
  for (const Tensor& x : {a, b}) kernels.fillZero(x);
  double best = 0;
  for (int i = 0; i < kProducts; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    kernels.gemm({.a = a, .b = b, .c = c});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * kSize * kSize * kSize / time.count());
  }
  return best;
}

/// In bytes, by kind.
OrderedJson jsonOf(const TrainingMemory& memory) {
  return {{"weights", memory.store.weights},
          {"masters", memory.store.masters},
          {"gradients", memory.store.gradients + memory.store.gradientShards},
          {"optimizer", memory.store.optimizer},
          {"staging", memory.store.staging},
          {"activations", memory.untilBackward.peak + memory.untilWeights.peak},
          {"between_stages", memory.between},
          {"scratch", memory.scratch.peak},
          {"checkpoint", memory.saving}};
}

/// Seconds, by for whom; they add up to waited_seconds.
OrderedJson jsonOf(const Waited& waited) {
  OrderedJson parts;
  for (const Awaited awaited : kAwaited) parts[toString(awaited)] = waited[awaited];
  return parts;
}
}  // namespace

Pace paceOf(int64_t first, int64_t step, int64_t steps, double seconds) {
  const double rate = static_cast<double>(step - first) / seconds;
  return {.stepsPerSecond = rate, .secondsLeft = static_cast<double>(steps - step) / rate};
}

void flushOutput() {
  const int before = errno;  // of a write that failed since, when a buffer was full
  const bool written = std::fflush(stdout) == 0;
  const int reason = written ? before : errno;
  if (!written || std::ferror(stdout))
    fail(ErrorCode::System, "standard output cannot be written: ", std::strerror(reason));
}

TrainingProgress::TrainingProgress(const TrainOptions& options, bool enabled)
    : enabled_(enabled),
      terminal_(isatty(STDOUT_FILENO) == 1),
      steps_(options.steps),
      batch_(options.batch),
      tokensPerStep_(options.batch * options.model.context),
      checkpoints_(options.checkpoints),
      unit_(options.tokenizer.empty() ? "byte" : "token"),
      jsonPath_(options.json),
      onHost_(options.device == "host"),
      peakFlops_(options.peakFlops),
      attentionFlops_(attentionFlops(modelOf(options))),
      idleParameters_(idleParameters(modelOf(options))),
      start_(Clock::now()),
      lastStep_(start_),
      lastShown_(start_) {
  if (!writesJson()) return;
  naming("--json", [&] {
    if (options.resume) requireLog(jsonPath_);
    requireReplaceable(jsonPath_);
    if (options.resume || isStream(jsonPath_)) json_ = File::continued(jsonPath_);
  });
}

void TrainingProgress::resumed(int64_t step) {
  first_ = step;
  cutJson(step);
  start_ = lastStep_ = lastShown_ = Clock::now();
  if (!enabled_ || step == 0) return;
  std::printf(
      "goes on behind step %lld of %s%s\n", static_cast<long long>(step), checkpoints_.c_str(),
      step < steps_ ? "" : message(": nothing is left to train, with --steps ", steps_).c_str());
  flushOutput();
}

void TrainingProgress::cutJson(int64_t step) {
  std::error_code unknown;
  if (!json_ || !std::filesystem::is_regular_file(jsonPath_, unknown)) return;
  std::ifstream lines(jsonPath_, std::ios::binary);
  uintmax_t kept = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof(); kept += line.size() + 1)
    if (!isUpTo(step, line)) break;
  // What is appended goes to the end that it has then.
  std::error_code why;
  std::filesystem::resize_file(jsonPath_, kept, why);
  if (why)
    fail(ErrorCode::System, "--json: cannot cut later steps off ", jsonPath_, ": ", why.message());
}

void TrainingProgress::appendJson(const std::string& line) {
  naming("--json", [&] {
    if (json_) return json_->append(line);
    replaceText(jsonPath_, line);
    json_ = File::continued(jsonPath_);
  });
}

void TrainingProgress::syncJson() {
  if (json_) naming("--json", [&] { json_->sync(); });
}

double TrainingProgress::seconds(Clock::time_point since) const {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

void TrainingProgress::begin(int64_t parameters, int64_t tokens, int ranks) {
  ranks_ = ranks;
  flopsPerToken_ = 6 * (static_cast<double>(parameters) - idleParameters_) + attentionFlops_;
  if (writesJson() && peakFlops_ == 0 && onHost_) peakFlops_ = measuredFlops();
  start_ = lastStep_ = lastShown_ = Clock::now();
  if (!enabled_) return;
  std::printf(
      "%.2f million parameters, %.2f million %ss of text, %d rank%s, %lld steps of %lld "
      "%ss\n",
      static_cast<double>(parameters) / 1e6, static_cast<double>(tokens) / 1e6, unit_.c_str(),
      ranks, ranks == 1 ? "" : "s", static_cast<long long>(steps_),
      static_cast<long long>(tokensPerStep_), unit_.c_str());
  flushOutput();
}

void TrainingProgress::shortText(int64_t windows) {
  if (!enabled_ || windows >= batch_) return;
  std::fprintf(stderr,
               "train_gpt: the text has %lld windows, fewer than --batch %lld: each step sees some "
               "of them more than once\n",
               static_cast<long long>(windows), static_cast<long long>(batch_));
}

void TrainingProgress::step(int64_t step, const StepReport& report, double learningRate,
                            const TrainingMemory& memory) {
  if (!enabled_) return;
  const double elapsed = seconds(lastStep_);
  lastStep_ = Clock::now();
  if (writesJson()) writeJson(step, report, learningRate, elapsed, memory);
  const bool due = seconds(lastShown_) >= (terminal_ ? kTerminalSeconds : kLogSeconds);
  if (due || step == first_ + 1 || step == steps_) show(step, report);
}

void TrainingProgress::writeJson(int64_t step, const StepReport& report, double learningRate,
                                 double stepSeconds, const TrainingMemory& memory) {
  const double rate = static_cast<double>(tokensPerStep_) / stepSeconds;
  // Of numbers that are not finite JSON has null.
  OrderedJson line{{"step", step},
                   {"tokens", report.tokens},
                   {"loss", report.loss},
                   {"grad_norm", report.gradientNorm},
                   {"learning_rate", learningRate},
                   {"tokens_per_second", rate},
                   {"mfu", rate * flopsPerToken_ / (peakFlops_ * ranks_)},
                   {"step_seconds", stepSeconds},
                   {"waited_seconds", report.waited.total()},
                   {"waited", jsonOf(report.waited)},
                   {"loss_scale", report.lossScale},
                   {"skipped", report.skipped},
                   {"memory", jsonOf(memory)}};
  addRouter(report.router, line);
  appendJson(line.dump() + "\n");
}

void TrainingProgress::show(int64_t step, const StepReport& report) {
  lastShown_ = Clock::now();
  const Pace pace = paceOf(first_, step, steps_, seconds(start_));
  const auto left = static_cast<long long>(pace.secondsLeft);
  std::printf("%sstep %lld/%lld  loss %.4f  gradient norm %.3f  %.0f tokens/s  %lld:%02lld left%s",
              terminal_ ? "\r" : "", static_cast<long long>(step), static_cast<long long>(steps_),
              report.loss, report.gradientNorm,
              pace.stepsPerSecond * static_cast<double>(tokensPerStep_), left / 60, left % 60,
              terminal_ ? (step == steps_ ? "\n" : "   ") : "\n");
  flushOutput();
}

void TrainingProgress::notFinite(const std::string& what) {
  if (!enabled_) return;
  syncJson();
  std::fprintf(stderr, "train_gpt: %s: the training has diverged, a smaller --lr may help\n",
               what.c_str());
}

void TrainingProgress::stopped(int64_t step, int signal, const std::string& checkpoints) {
  if (!enabled_) return;
  syncJson();
  std::printf("%sended by SIG%s after step %lld; %s\n", terminal_ ? "\n" : "", sigabbrev_np(signal),
              static_cast<long long>(step),
              checkpoints.empty()
                  ? "nothing was saved: there is no --checkpoints"
                  : message("--checkpoints ", checkpoints, " --resume goes on from here").c_str());
  flushOutput();
}

void TrainingProgress::validating(int64_t done, int64_t windows) {
  if (!enabled_) return;
  if (done == 0) validationStart_ = lastShown_ = Clock::now();
  const bool last = done == windows;
  const double wait = !validationShown_ ? kValidationSeconds
                      : terminal_       ? kTerminalSeconds
                                        : kLogSeconds;
  if (last ? !validationShown_ : seconds(lastShown_) < wait) return;
  validationShown_ = true;
  lastShown_ = Clock::now();
  const Pace pace = paceOf(0, done, windows, seconds(validationStart_));
  const auto left = static_cast<long long>(pace.secondsLeft);
  std::printf("%svalidation %lld/%lld windows  %lld:%02lld left%s", terminal_ ? "\r" : "",
              static_cast<long long>(done), static_cast<long long>(windows), left / 60, left % 60,
              terminal_ && !last ? "   " : "\n");
  flushOutput();
}

void TrainingProgress::validation(double loss) {
  if (!enabled_) return;
  syncJson();
  std::printf("validation loss %.4f nats a %s (%.3f bits) after %.0f s\n", loss, unit_.c_str(),
              loss / std::log(2.0), seconds(start_));
  flushOutput();
}

void TrainingProgress::text(const std::string& prompt, const std::string& generated) {
  if (!enabled_) return;
  std::printf("\n%s%s\n", printable(prompt).c_str(), printable(generated).c_str());
  flushOutput();
}

}  // namespace tutti::parallel
