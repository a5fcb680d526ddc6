#include "src/launch/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "src/base/check.h"
#include "src/base/pipe.h"

namespace tutti::launcher {
namespace {

// A handler has no other way to find its object.
std::atomic<int> handlerPipe{-1};

void onSignal(int number) {
  const int saved = errno;
  const ReceivedSignal received{number, std::chrono::steady_clock::now()};
  const int fd = handlerPipe.load(std::memory_order_acquire);
  // A full pipe holds thousands of signals that nobody has passed on yet: one more says nothing.
  [[maybe_unused]] const ssize_t written = fd >= 0 ? write(fd, &received, sizeof received) : 0;
  errno = saved;
}

/// It fails only for signals that do not exist.
void act(int number, const struct sigaction* action, struct sigaction* before) {
  const int result = sigaction(number, action, before);
  TUTTI_ASSERT(result == 0, "signal ", number, ", errno ", errno);
}

void mask(const sigset_t& signals, sigset_t* before) {
  const int error = pthread_sigmask(SIG_SETMASK, &signals, before);
  TUTTI_ASSERT(error == 0, "errno ", error);
}

}  // namespace

SignalCollector::SignalCollector() {
  base::Pipe pipe = base::makePipe(O_NONBLOCK);
  readEnd_ = std::move(pipe.readEnd);
  writeEnd_ = std::move(pipe.writeEnd);
  int none = -1;
  if (!handlerPipe.compare_exchange_strong(none, writeEnd_.get()))
    base::fail(ErrorCode::InvalidUsage, "launch() is already running in this process");
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kPassedOn.size(); ++i) {
    act(kPassedOn[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) act(kPassedOn[i], &action, nullptr);
  }
  action.sa_handler = SIG_IGN;
  act(SIGPIPE, &action, &beforePipe_);
  // Ignored, which exec hands on, or with a handler that reaps, it would cost the exit codes.
  action.sa_handler = SIG_DFL;
  act(SIGCHLD, &action, &beforeChild_);
}

SignalCollector::~SignalCollector() {
  for (size_t i = 0; i < kPassedOn.size(); ++i) act(kPassedOn[i], &before_[i], nullptr);
  act(SIGPIPE, &beforePipe_, nullptr);
  act(SIGCHLD, &beforeChild_, nullptr);
  handlerPipe.store(-1, std::memory_order_release);
}

std::vector<ReceivedSignal> SignalCollector::take() {
  ReceivedSignal received[64];  // a pipe takes each whole
  const ssize_t count = read(readEnd_.get(), received, sizeof received);
  if (count < 0 && errno != EAGAIN && errno != EINTR) base::failSyscall("read", errno, "signals");
  if (count <= 0) return {};
  return {received, received + static_cast<size_t>(count) / sizeof received[0]};
}

SignalsHeld::SignalsHeld() {
  sigset_t all;
  sigfillset(&all);
  mask(all, &before_);
}

SignalsHeld::~SignalsHeld() { mask(before_, nullptr); }

}  // namespace tutti::launcher
