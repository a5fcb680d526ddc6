#pragma once

// What a scheduler, a person or the launcher asks of a training with a signal: to end. While one of
// these lives, SIGTERM, SIGINT and SIGUSR1 end nothing by themselves; a training asks between steps
// whether one has come, and takes the time that a checkpoint needs.

#include <array>
#include <csignal>

namespace tutti::parallel {

/// SIGUSR1 is what schedulers send some time before they end a job (Slurm's --signal).
inline constexpr std::array kEndSignals{SIGTERM, SIGINT, SIGUSR1};

/// One at a time in a process. A second SIGINT has its default again: whoever types it twice does
/// not want to wait. The others may come several times, from a launcher and from what stops its
/// whole group.
class EndRequest {
 public:
  EndRequest();
  ~EndRequest();  ///< what was before holds again
  EndRequest(const EndRequest&) = delete;
  EndRequest& operator=(const EndRequest&) = delete;

  /// The last of the signals that came; 0: none has.
  int signal() const;

 private:
  std::array<struct sigaction, kEndSignals.size()> before_{};
};

}  // namespace tutti::parallel
