#include "src/launch/job.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/check.h"
#include "src/base/cores.h"
#include "src/base/pipe.h"
#include "src/launch/environment.h"

namespace tutti::launcher {
namespace {

using base::FileDescriptor;
using base::message;

constexpr auto kTick = std::chrono::milliseconds(1000);  ///< no poll() waits longer
/// How long output is waited for after the last rank has ended: a process that left its rank's
/// group may hold the pipe for ever.
constexpr auto kDrainTime = std::chrono::milliseconds(1000);

FileDescriptor openFile(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) base::failSyscall("open", errno, path);
  return FileDescriptor(fd);
}

/// Each attempt has its own, so that none overwrites what an earlier one has said.
std::string outputFolder(const LaunchOptions& options, int restart) {
  if (options.outputDirectory.empty() || restart == 0) return options.outputDirectory;
  return message(options.outputDirectory, "/restart-", restart);
}

std::string streamFile(const std::string& folder, int rank, int which) {
  return message(folder, "/", rank, which == 0 ? ".out" : ".err");
}

/// The last lines of a file, from its last 16 KiB.
void addTail(const std::string& path, Tail& tail) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg(), window = 16 * 1024;
  if (!in || size <= 0) return;
  in.seekg(std::max<std::streamoff>(0, size - window));
  for (std::string line; std::getline(in, line);) tail.add(line);
}

}  // namespace

Job::Job(const LaunchOptions& options, std::string path, std::string uniqueId, int restart,
         SignalCollector& signals)
    : options_(options),
      path_(std::move(path)),
      uniqueId_(std::move(uniqueId)),
      restart_(restart),
      outputFolder_(outputFolder(options, restart)),
      cores_(base::usableCores()),
      signals_(signals),
      guardian_(options.ranks),
      outlets_(STDOUT_FILENO, STDERR_FILENO),
      tails_(options.ranks) {
  if (outputFolder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(outputFolder_, error);
  if (error) base::failSyscall("mkdir", error.value(), outputFolder_);
}

Job::Outcome Job::run() {
  startRanks();
  while (runningRanks() > 0) {
    pollOnce();
    killWhenOverdue();
  }
  drain();
  report();
  if (failure_) return {.exitCode = failure_->exitCode, .again = decideOnAnother()};
  return {.exitCode = outputIsLost() ? 1 : 0};
}

void Job::startRanks() {
  for (int rank = 0; rank < options_.ranks && !failure_; ++rank) startRank(rank);
}

void Job::startRank(int rank) {
  const FileDescriptor nothing = openFile("/dev/null", O_RDONLY);
  FileDescriptor ends[2], theirs[2];
  for (int which = 0; which < 2; ++which) {
    if (!outputFolder_.empty()) {
      theirs[which] =
          openFile(streamFile(outputFolder_, rank, which), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    } else if (options_.prefixOutput) {
      base::Pipe pipe = base::makePipe();
      ends[which] = std::move(pipe.readEnd);
      theirs[which] = std::move(pipe.writeEnd);
    }
  }
  const Start start = {.path = path_,
                       .arguments = options_.command,
                       .environment = rankEnvironment({.rank = rank,
                                                       .ranks = options_.ranks,
                                                       .uniqueId = uniqueId_,
                                                       .restart = restart_,
                                                       .cores = cores_}),
                       .input = rank == 0 ? input_.rankEnd() : nothing.get(),
                       .output = theirs[0] ? theirs[0].get() : STDOUT_FILENO,
                       .error = theirs[1] ? theirs[1].get() : STDERR_FILENO};
  ranks_.push_back(std::make_unique<RankProcess>(start, guardian_));
  if (rank == 0) input_.started();
  for (int which = 0; which < 2; ++which)
    if (ends[which])
      relays_.push_back(
          std::make_unique<LineRelay>(std::move(ends[which]), rank, which, outlets_, tails_[rank]));
  if (const int error = ranks_.back()->execError(); error != 0)
    fail({.rank = rank,
          .how = message("could not execute ", path_, ": ", strerrordesc_np(error)),
          .exitCode = error == ENOENT ? 127 : 126,
          .notStarted = true});
}

void Job::pollOnce() {
  std::vector<pollfd> set;
  const auto watch = [&](int fd, short events) {
    set.push_back({.fd = fd, .events = events, .revents = 0});
  };
  watch(signals_.fd(), POLLIN);
  watch(input_.ready() ? STDIN_FILENO : -1, POLLIN);
  for (int which = 0; which < 2; ++which)
    watch(outlets_.wants(which) ? outlets_.fd(which) : -1, POLLOUT);
  const bool reading = !outlets_.full();
  for (const auto& relay : relays_) watch(reading && relay->open() ? relay->fd() : -1, POLLIN);
  for (const auto& rank : ranks_) watch(rank->pidfd(), POLLIN);

  auto wait = std::chrono::duration<double, std::milli>(kTick);
  if (killAt_ && !killed_)
    wait = std::clamp(std::chrono::duration<double, std::milli>(*killAt_ - Clock::now()),
                      decltype(wait)::zero(), wait);
  if (poll(set.data(), set.size(), static_cast<int>(std::ceil(wait.count()))) < 0) {
    if (errno != EINTR) base::failSyscall("poll", errno);
    return;
  }
  for (int signal : signals_.take()) passOn(signal);
  if (set[1].revents) input_.pass();
  for (size_t i = 0; i < relays_.size(); ++i)
    if (set[4 + i].revents && !outlets_.full()) relays_[i]->read();
  outlets_.flush();
  noteEnds();
}

void Job::passOn(int signal) {
  const bool ends = endsJob(signal);
  for (const auto& rank : ranks_) ends ? rank->signal(signal) : rank->signalAlone(signal);
  if (!ends) return;
  if (interruptedBy_ == 0) interruptedBy_ = signal;
  if (!killAt_) killAt_ = Clock::now() + options_.gracePeriod;
}

// Of several that are found at once, one killed by a signal is the likelier cause: the others may
// have failed because it was gone.
void Job::noteEnds() {
  int worst = -1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankProcess& rank = *ranks_[i];
    if (!rank.running()) continue;
    rank.reapIfEnded();
    if (rank.running() || !rank.end()->failed()) continue;
    if (worst < 0 || (rank.end()->killed && !ranks_[worst]->end()->killed))
      worst = static_cast<int>(i);
  }
  if (worst < 0) return;
  const RankEnd& end = *ranks_[worst]->end();
  fail({.rank = worst, .how = end.describe(), .exitCode = end.exitCode()});
}

void Job::fail(Failure failure) {
  if (failure_) return;
  failure.pid = ranks_[failure.rank]->pid();
  failure.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  failure_ = std::move(failure);
  beginEnding();
}

void Job::beginEnding() {
  for (const auto& rank : ranks_) {
    rank->signal(SIGTERM);
    rank->signal(SIGCONT);  // one that is stopped would not see the other
  }
  if (!killAt_) killAt_ = Clock::now() + options_.gracePeriod;
}

void Job::killWhenOverdue() {
  if (!killAt_ || killed_ || Clock::now() < *killAt_) return;
  killed_ = true;
  if (const int left = runningRanks(); left > 0)
    say(message(left, left == 1 ? " rank" : " ranks", " did not end within ",
                options_.gracePeriod.count() / 1000.0, " s and ", left == 1 ? "is" : "are",
                " killed"));
  for (const auto& rank : ranks_) rank->signal(SIGKILL);
}

void Job::drain() {
  Clock::time_point until = Clock::now() + kDrainTime;
  while ((relaysOpen() && Clock::now() < until) || outlets_.pendingBytes() > 0) {
    const int before = interruptedBy_;
    pollOnce();
    // A reader that has stopped is waited for, as every program does, until a signal.
    if (interruptedBy_ != before) break;
    if (outlets_.full()) until = Clock::now() + kDrainTime;
  }
  for (const auto& relay : relays_) relay->finish();
  outlets_.flush();
}

void Job::say(const std::string& line) {
  outlets_.add(1, message("tutti run: ", line, "\n"));
  outlets_.flush();
}

std::vector<std::string> Job::tailOf(int rank) const {
  Tail tail = tails_[rank];
  if (!outputFolder_.empty()) {
    addTail(streamFile(outputFolder_, rank, 1), tail);
    if (tail.lines().empty()) addTail(streamFile(outputFolder_, rank, 0), tail);
  }
  return {tail.lines().begin(), tail.lines().end()};
}

void Job::report() {
  if (!failure_) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", failure_->seconds);
  if (interruptedBy_ != 0)
    say(message("this process got signal ", interruptedBy_, " (SIG", sigabbrev_np(interruptedBy_),
                ") and passed it on"));
  say(message("rank ", failure_->rank, " (pid ", failure_->pid, ") failed first, ", seconds,
              " s after the start: it ", failure_->how));
  const auto lines = tailOf(failure_->rank);
  const bool kept = options_.prefixOutput || !outputFolder_.empty();
  if (kept && lines.empty()) say("it wrote nothing");
  if (!lines.empty()) say("its last lines:");
  for (const std::string& line : lines)
    outlets_.add(1, message("[", failure_->rank, "] ", line, "\n"));
  outlets_.flush();
}

/// After a failure. Says what comes next, where restarts were asked for.
bool Job::decideOnAnother() {
  if (options_.restarts == 0) return false;
  const char* obstacle = nullptr;
  if (interruptedBy_ != 0)
    obstacle = "was told to end";
  else if (failure_->notStarted)
    obstacle = "cannot start";
  else if (outlets_.readerGone())
    obstacle = "has no reader left";
  else if (restart_ == options_.restarts)
    obstacle = "has no attempt left";
  const std::string attempt =
      message("attempt ", restart_ + 1, " of ", options_.restarts + 1, " failed: the job ");
  say(attempt + (obstacle ? obstacle : "starts again"));
  return !obstacle;
}

/// Says so where it can be said.
bool Job::outputIsLost() {
  bool lost = false;
  for (int which = 0; which < 2; ++which) {
    if (outlets_.error(which) == 0) continue;
    lost = true;
    say(message("what the ranks wrote to standard ", which == 0 ? "output" : "error",
                " is lost in part: ", strerrordesc_np(outlets_.error(which))));
  }
  return lost;
}

int Job::runningRanks() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                        [](const auto& rank) { return rank->running(); }));
}

bool Job::relaysOpen() const {
  return std::any_of(relays_.begin(), relays_.end(),
                     [](const auto& relay) { return relay->open(); });
}

}  // namespace tutti::launcher
