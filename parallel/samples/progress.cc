#include "parallel/samples/progress.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {

namespace {
constexpr double kTerminalSeconds = 0.1;  // between rewritten lines
constexpr double kLogSeconds = 10;        // between lines that stay

constexpr const char* kJsonStep = "{\"step\": %lld";  // how a line begins

/// JSON has no NaN and no infinity.
std::string number(double value) {
  char text[32] = "null";
  if (std::isfinite(value)) std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
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
  json_.reset(std::fopen(jsonPath_.c_str(), options.resume ? "a" : "w"));
  require(json_ != nullptr, "--json ", jsonPath_, " cannot be written: ", std::strerror(errno));
}

void Progress::resumed(int64_t step) {
  std::error_code unknown;
  if (!json_ || !std::filesystem::is_regular_file(jsonPath_, unknown)) return;
  std::ifstream lines(jsonPath_, std::ios::binary);
  uintmax_t kept = 0;
  long long found = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof(); kept += line.size() + 1)
    if (std::sscanf(line.c_str(), kJsonStep, &found) != 1 || found > step) break;
  std::filesystem::resize_file(jsonPath_,
                               kept);  // what is appended goes to the end that it has then
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
               "\"learning_rate\": %s, \"tokens_per_second\": %s}\n",
               static_cast<long long>(step), static_cast<long long>(report.tokens),
               number(report.loss).c_str(), number(report.gradientNorm).c_str(),
               number(learningRate).c_str(),
               number(static_cast<double>(tokensPerStep_) / stepSeconds).c_str());
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

void Progress::stopped(int64_t step, int signal, const std::string& checkpoints) {
  if (!enabled_) return;
  std::printf("%sended by SIG%s after step %lld; %s\n", terminal_ ? "\n" : "", sigabbrev_np(signal),
              static_cast<long long>(step),
              checkpoints.empty()
                  ? "nothing was saved: there is no --checkpoints"
                  : message("--checkpoints ", checkpoints, " --resume goes on from here").c_str());
  flushOutput();
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
