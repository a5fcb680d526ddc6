#pragma once

// The signals that the launcher passes on, written to a pipe while a job runs.

#include <array>
#include <chrono>
#include <csignal>
#include <vector>

#include "src/base/file_descriptor.h"

namespace tutti::launcher {

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// Whether a signal asks the job to end; the others only tell its ranks something.
constexpr bool endsJob(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

struct ReceivedSignal {
  int number;
  std::chrono::steady_clock::time_point at;
};

/// While it lives, signals in kPassedOn are collected, SIGPIPE is ignored and SIGCHLD has its
/// default; then what was before holds again. One at a time in a process: throws InvalidUsage for a
/// second one.
class SignalCollector {
 public:
  SignalCollector();
  ~SignalCollector();
  SignalCollector(const SignalCollector&) = delete;
  SignalCollector& operator=(const SignalCollector&) = delete;

  int fd() const { return readEnd_.get(); }
  /// The signals since the last call, in order, 64 at most.
  std::vector<ReceivedSignal> take();

 private:
  base::FileDescriptor readEnd_, writeEnd_;
  std::array<struct sigaction, kPassedOn.size()> before_{};
  struct sigaction beforePipe_ {};
  struct sigaction beforeChild_ {};
};

/// While it lives, no signal reaches this thread: a handler of this process must not run in a child
/// between its fork and its exec.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tutti::launcher
