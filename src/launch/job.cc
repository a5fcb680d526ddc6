#include "src/launch/job.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "src/base/check.h"
#include "src/base/cores.h"
#include "src/base/pipe.h"
#include "src/launch/environment.h"

namespace tutti::launcher {
namespace {

using base::FileDescriptor;
using base::message;

constexpr auto kTick = std::chrono::milliseconds(1000);  ///< no poll() waits longer
/// The same while a rank runs whose end nothing reports.
constexpr auto kLook = std::chrono::milliseconds(50);
/// For all ranks together, to execute their program. Then the launcher goes on, and hears later of
/// those that cannot.
constexpr auto kStartTime = std::chrono::milliseconds(10'000);
/// Signals to end within this time are one: a terminal and a wrapper both pass on a Ctrl-C.
constexpr auto kSameRequest = std::chrono::milliseconds(250);
/// How long output is waited for after the last rank has ended: a process that left its rank's
/// group may hold the pipe for ever.
constexpr auto kDrainTime = std::chrono::milliseconds(1000);

/// Opens without waiting, as for a reader of a FIFO.
FileDescriptor openFile(const std::string& path, int flags) {
  FileDescriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file) base::failSyscall("open", errno, path);
  TUTTI_SYSCALL(fcntl(file.get(), F_SETFL, flags & O_APPEND));
  return file;
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
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;  // the end of a FIFO never comes
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

Job::~Job() {
  for (const auto& rank : ranks_) rank->signal(SIGKILL);
}

Job::Outcome Job::run() {
  startRanks();
  while (runningRanks() > 0 && !heldForLong()) {
    pollOnce();
    killWhenOverdue();
  }
  leaveHeldRanks();
  settlesSince_ = requests_;
  tookAt_ = Clock::now();
  finishRelays();
  report();
  writeRest();
  const bool again = failure_ && decideOnAnother();
  writeRest();
  return {.exitCode = exitCode(), .again = again};
}

void Job::startRanks() {
  const auto deadline = base::Deadline::after(kStartTime);
  for (int rank = 0; rank < options_.ranks && !failure_; ++rank) startRank(rank, deadline);
}

void Job::startRank(int rank, base::Deadline deadline) {
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
  ranks_.push_back(std::make_unique<RankProcess>(start, guardian_, deadline));
  if (rank == 0) input_.started();
  for (int which = 0; which < 2; ++which)
    if (ends[which])
      relays_.push_back(
          std::make_unique<LineRelay>(std::move(ends[which]), rank, which, outlets_, tails_[rank]));
  if (ranks_.back()->startError()) failStart(rank);
}

void Job::failStart(int rank) {
  const StartError error = *ranks_[rank]->startError();
  fail({.rank = rank,
        .how = message("could not execute ", path_, ": ", error.describe()),
        .exitCode = error.error == ENOENT ? 127 : 126,
        .notStarted = true});
}

void Job::pollOnce() {
  std::vector<pollfd> set;
  const auto watch = [&](int fd, short events) {
    set.push_back({.fd = fd, .events = events, .revents = 0});
  };
  watch(signals_.fd(), POLLIN);
  watch(input_.ready() ? input_.fd() : -1, POLLIN);
  for (int which = 0; which < 2; ++which)
    watch(outlets_.wants(which) ? outlets_.fd(which) : -1, POLLOUT);
  const bool reading = !outlets_.full();
  for (const auto& relay : relays_) watch(reading && relay->open() ? relay->fd() : -1, POLLIN);
  for (const auto& rank : ranks_) watch(rank->pidfd(), POLLIN);

  if (poll(set.data(), set.size(), pollMs()) < 0) {
    if (errno != EINTR) base::failSyscall("poll", errno);
    return;
  }
  for (const ReceivedSignal& signal : signals_.take()) passOn(signal);
  if (set[1].revents) input_.pass();
  for (size_t i = 0; i < relays_.size(); ++i)
    if (set[4 + i].revents && !outlets_.full()) relays_[i]->read();
  const uint64_t before = outlets_.taken();
  outlets_.flush();
  if (outlets_.taken() != before) tookAt_ = Clock::now();
  noteEnds();
  sayTroubles();
}

int Job::pollMs() const {
  auto wait = std::chrono::duration<double, std::milli>(kTick);
  for (const auto& rank : ranks_)
    if (rank->running() && rank->pidfd() < 0) wait = kLook;
  if (killAt_ && !killed_ && runningRanks() > 0)
    wait = std::clamp(std::chrono::duration<double, std::milli>(*killAt_ - Clock::now()),
                      decltype(wait)::zero(), wait);
  return static_cast<int>(std::ceil(wait.count()));
}

/// What went wrong beside the ranks, once each.
void Job::sayTroubles() {
  if (const std::string trouble = guardian_.takeTrouble(); !trouble.empty()) say(trouble);
  for (int which = 0; which < 2; ++which)
    if (outlets_.error(which) != 0 && !std::exchange(lossSaid_[which], true))
      say(message("what the ranks write to standard ", which == 0 ? "output" : "error",
                  " is lost from here on: ", strerrordesc_np(outlets_.error(which)), " (",
                  strerrorname_np(outlets_.error(which)), ")"));
}

void Job::send(size_t rank, int signal, bool alone) {
  RankProcess& process = *ranks_[rank];
  const int error = alone ? process.signalAlone(signal) : process.signal(signal);
  if (error != 0 && !std::exchange(refusalSaid_, true))
    say(message("rank ", rank, " (pid ", process.pid(), ") was not sent signal ", signal, ": ",
                strerrordesc_np(error), "; it may run as another user"));
}

void Job::passOn(const ReceivedSignal& signal) {
  const bool ends = endsJob(signal.number);
  for (size_t rank = 0; rank < ranks_.size(); ++rank) send(rank, signal.number, /*alone=*/!ends);
  if (!ends) return;
  if (interruptedBy_ != 0 && signal.at - interruptedAt_ < kSameRequest) return;
  ++requests_;
  if (interruptedBy_ == 0) {
    interruptedBy_ = signal.number;
    if (!killAt_) killAt_ = signal.at + options_.gracePeriod;
  } else if (!killed_) {
    killAt_ = std::min(*killAt_, signal.at);
  }
  interruptedAt_ = signal.at;
}

// Of several that are found at once, one killed by a signal is the likelier cause: the others may
// have failed because it was gone.
void Job::noteEnds() {
  std::vector<size_t> failed;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankProcess& rank = *ranks_[i];
    if (!rank.running()) continue;
    rank.reapIfEnded();
    if (rank.startError()) return failStart(static_cast<int>(i));
    if (!rank.running() && rank.end()->failed()) failed.push_back(i);
  }
  if (failed.empty()) return;
  const auto killed = std::find_if(failed.begin(), failed.end(),
                                   [&](size_t i) { return ranks_[i]->end()->killed; });
  const size_t worst = killed != failed.end() ? *killed : failed.front();
  const RankEnd& end = *ranks_[worst]->end();
  fail({.rank = static_cast<int>(worst), .how = end.describe(), .exitCode = end.exitCode()});
  if (options_.keepGoing) sayWhoGoesOn(failed);
}

/// The first failure is the one that counts. One that could not start ends also those that would
/// keep going: they wait for it.
void Job::fail(Failure failure) {
  const bool ends = options_.keepGoing ? failure.notStarted : !failure_;
  if (!failure_) {
    failure.pid = ranks_[failure.rank]->pid();
    failure.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    failure_ = std::move(failure);
  }
  if (ends) beginEnding();
}

/// At once, as the report comes when all have ended.
void Job::sayWhoGoesOn(const std::vector<size_t>& failed) {
  const int left = runningRanks();
  if (left == 0 || killAt_) return;
  for (const size_t i : failed)
    say(message("rank ", i, " (pid ", ranks_[i]->pid(), ") ", ranks_[i]->end()->describe(), "; ",
                left, left == 1 ? " rank goes on" : " ranks go on"));
}

void Job::beginEnding() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    send(rank, SIGTERM);
    send(rank, SIGCONT);  // one that is stopped would not see the other
  }
  if (!killAt_) killAt_ = Clock::now() + options_.gracePeriod;
}

void Job::killWhenOverdue() {
  if (!killAt_ || killed_ || Clock::now() < *killAt_) return;
  killed_ = true;
  killAt_ = Clock::now();
  if (const int left = runningRanks(); left > 0) {
    const std::string ranks = message(left, left == 1 ? " rank" : " ranks");
    if (requests_ > 1)
      say(message(ranks, left == 1 ? " is" : " are",
                  " killed: this process was told to end again"));
    else
      say(message(ranks, " did not end within ", options_.gracePeriod.count() / 1000.0, " s and ",
                  left == 1 ? "is" : "are", " killed"));
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) send(rank, SIGKILL);
}

/// Killed ranks end at once, unless the kernel or a debugger holds them.
bool Job::heldForLong() const { return killed_ && Clock::now() >= *killAt_ + kKilledEndsIn; }

void Job::leaveHeldRanks() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i]->running()) continue;
    const std::string how = "was killed, but does not end: the kernel or a debugger holds it";
    say(message("rank ", i, " (pid ", ranks_[i]->pid(), ") ", how));
    fail({.rank = static_cast<int>(i), .how = how, .exitCode = 128 + SIGKILL});
  }
}

/// A reader that stands still is waited for, as every program does, but not for ever: until a
/// signal to end, its grace period if it came before, or the output's own timeout.
bool Job::readerIsLost() const {
  if (requests_ > *settlesSince_) return true;
  const auto now = Clock::now();
  const bool hurry = requests_ > 1 || (interruptedBy_ != 0 && now >= *killAt_);
  const auto patience =
      hurry ? std::min(kDrainTime, options_.outputTimeout) : options_.outputTimeout;
  return outlets_.pendingBytes() > 0 && now - tookAt_ >= patience;
}

void Job::finishRelays() {
  Clock::time_point until = Clock::now() + kDrainTime;
  while (relaysOpen() && Clock::now() < until && !readerIsLost()) {
    pollOnce();
    if (outlets_.full()) until = Clock::now() + kDrainTime;
  }
  for (const auto& relay : relays_) relay->finish();
}

void Job::writeRest() {
  outlets_.flush();
  while (outlets_.pendingBytes() > 0 && !readerIsLost()) pollOnce();
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
  else if (outlets_.readerGone() || outlets_.pendingBytes() > 0)
    obstacle = "has no reader left";
  else if (lossSaid_[0] || lossSaid_[1])
    obstacle = "cannot write its output";
  else if (runningRanks() > 0)
    obstacle = "has a rank that does not end";
  else if (restart_ == options_.restarts)
    obstacle = "has no attempt left";
  const std::string attempt =
      message("attempt ", restart_ + 1, " of ", options_.restarts + 1, " failed: the job ");
  say(attempt + (obstacle ? obstacle : "starts again"));
  return !obstacle;
}

/// Says what of the output is lost, where it can be said.
int Job::exitCode() {
  bool lost = lossSaid_[0] || lossSaid_[1];
  // A rank that writes on is ended by SIGPIPE then, which is not its fault.
  const bool ownFault = failure_ && !(lost && failure_->exitCode == 128 + SIGPIPE);
  for (int which = 0; which < 2; ++which) {
    if (!outlets_.wants(which)) continue;
    lost = true;
    say(message("what the ranks wrote to standard ", which == 0 ? "output" : "error",
                " is lost in part: its reader takes nothing"));
  }
  return ownFault ? failure_->exitCode : lost ? 1 : 0;
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
