#pragma once

// SharedStreams: which ranks of a process have launched what on which stream. Launches of ranks of
// one communicator that share a stream without sharing the launch would wait for each other for
// ever. Who launches after another rank has made the same call, or the other end of a message, on
// the same stream is refused. One object for the process; any thread that launches; `mutex_`
// protects all of it.

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "src/communicator/gpu/gpu_rank.h"
#include "src/executor/exchange.h"

namespace tutti::communicator {

/// What ranks number alike: the messages from one rank to another, or, as {-1, -1}, the collectives
/// of all.
using Line = std::pair<int, int>;
inline constexpr Line kCollectives{-1, -1};

/// By line, how many messages of an exchange with other ranks go there.
std::map<Line, uint64_t> messagesOf(const executor::Exchange& exchange, int rank);

class SharedStreams {
 public:
  /// What a launch does of a line for a rank.
  struct Part {
    Line line;
    int rank = 0;
    uint64_t first = 0, last = 0;
  };

  static SharedStreams& ofProcess();
  /// These are about to share a launch. The rank that has been there, or -1.
  int launch(uint64_t group, const StreamIdentity& stream, const std::vector<Part>& parts);
  /// When the last of a communicator's calls has ended.
  void forget(uint64_t group);

 private:
  using Launched = std::map<std::pair<Line, int>, uint64_t>;  // the last of each rank
  struct Stream {
    Launched launched;
    uint64_t used = 0;  // when it was last
  };
  static int rankBefore(const Launched& here, const Part& part);
  void forgetOldest();

  std::mutex mutex_;
  std::map<std::pair<uint64_t, StreamIdentity>, Stream> launches_;  // by communicator
  uint64_t used_ = 0;
};

}  // namespace tutti::communicator
