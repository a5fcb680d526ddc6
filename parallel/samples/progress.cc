#include "parallel/samples/progress.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {

namespace {
constexpr double kTerminalSeconds = 0.1;  // between rewritten lines
constexpr double kLogSeconds = 10;        // between lines that stay

/// JSON has no NaN and no infinity.
std::string number(double value) {
  char text[32] = "null";
  if (std::isfinite(value)) std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

/// Of a step's line; none where there are no experts.
std::string routerMembers(const RouterReport& router) {
  if (router.loads.empty()) return "";
  std::string loads;
  for (const double load : router.loads) loads += (loads.empty() ? "" : ", ") + number(load);
  return ", \"balance_loss\": " + number(router.balance) + ", \"z_loss\": " + number(router.z) +
         ", \"dropped\": " + number(router.dropped() / router.choices) + ", \"expert_loads\": [" +
         loads + "]";
}
}  // namespace

void flushOutput() {
  const int before = errno;  // of a write that failed since, when a buffer was full
  const bool written = std::fflush(stdout) == 0;
  const int reason = written ? before : errno;
  if (!written || std::ferror(stdout))
    fail(ErrorCode::System, "standard output cannot be written: ", std::strerror(reason));
}

Progress::Progress(const TrainOptions& options, bool enabled)
    : enabled_(enabled),
      terminal_(isatty(STDOUT_FILENO) == 1),
      steps_(options.steps),
      batch_(options.batch),
      tokensPerStep_(options.batch * options.model.context),
      unit_(options.tokenizer.empty() ? "byte" : "token"),
      jsonPath_(options.json),
      start_(Clock::now()),
      lastStep_(start_),
      lastShown_(start_) {
  if (!enabled_ || jsonPath_.empty()) return;
  json_.reset(std::fopen(jsonPath_.c_str(), "w"));
  require(json_ != nullptr, "--json ", jsonPath_, " cannot be written: ", std::strerror(errno));
}

double Progress::seconds(Clock::time_point since) const {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

void Progress::begin(int64_t parameters, int64_t tokens, int ranks) {
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

void Progress::shortText(int64_t windows) {
  if (!enabled_ || windows >= batch_) return;
  std::fprintf(stderr,
               "train_gpt: the text has %lld windows, fewer than --batch %lld: each step sees some "
               "of them more than once\n",
               static_cast<long long>(windows), static_cast<long long>(batch_));
}

void Progress::step(int64_t step, const StepReport& report, double learningRate) {
  if (!enabled_) return;
  const double elapsed = seconds(lastStep_);
  lastStep_ = Clock::now();
  if (json_) writeJson(step, report, learningRate, elapsed);
  const bool due = seconds(lastShown_) >= (terminal_ ? kTerminalSeconds : kLogSeconds);
  if (due || step == 1 || step == steps_) show(step, report);
}

void Progress::writeJson(int64_t step, const StepReport& report, double learningRate,
                         double stepSeconds) {
  std::fprintf(json_.get(),
               "{\"step\": %lld, \"tokens\": %lld, \"loss\": %s, \"grad_norm\": %s, "
               "\"learning_rate\": %s, \"tokens_per_second\": %s%s}\n",
               static_cast<long long>(step), static_cast<long long>(report.tokens),
               number(report.loss).c_str(), number(report.gradientNorm).c_str(),
               number(learningRate).c_str(),
               number(static_cast<double>(tokensPerStep_) / stepSeconds).c_str(),
               routerMembers(report.router).c_str());
  const bool written = std::fflush(json_.get()) == 0;
  if (!written)
    fail(ErrorCode::System, "--json ", jsonPath_, " cannot be written: ", std::strerror(errno));
}

void Progress::show(int64_t step, const StepReport& report) {
  lastShown_ = Clock::now();
  const double rate = static_cast<double>(step) / seconds(start_);
  const auto left = static_cast<long long>(static_cast<double>(steps_ - step) / rate);
  std::printf("%sstep %lld/%lld  loss %.4f  gradient norm %.3f  %.0f tokens/s  %lld:%02lld left%s",
              terminal_ ? "\r" : "", static_cast<long long>(step), static_cast<long long>(steps_),
              report.loss, report.gradientNorm, rate * static_cast<double>(tokensPerStep_),
              left / 60, left % 60, terminal_ ? (step == steps_ ? "\n" : "   ") : "\n");
  flushOutput();
}

void Progress::notFinite(const std::string& what) {
  if (!enabled_) return;
  std::fprintf(stderr, "train_gpt: %s: the training has diverged, a smaller --lr may help\n",
               what.c_str());
}

void Progress::validation(double loss) {
  if (!enabled_) return;
  std::printf("validation loss %.4f nats a %s (%.3f bits) after %.0f s\n", loss, unit_.c_str(),
              loss / std::log(2.0), seconds(start_));
  flushOutput();
}

void Progress::text(const std::string& prompt, const std::string& generated) {
  if (!enabled_) return;
  std::printf("\n%s%s\n", printable(prompt).c_str(), printable(generated).c_str());
  flushOutput();
}

}  // namespace tutti::parallel
