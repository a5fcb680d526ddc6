#pragma once

// What the executor runs: something that is polled until it is done and never blocks.

#include <cstdint>

namespace tutti::executor {

enum class Poll { Done, Moved, Idle };

class Operation {
 public:
  virtual ~Operation() = default;
  /// Does what can be done without waiting; moves a bounded number of bytes.
  virtual Poll poll() = 0;
  /// The rank that the last idle poll found itself waiting for; -1 for none.
  virtual int waitingFor() const = 0;
  /// Payload received through slots so far.
  virtual uint64_t bytesReceived() const = 0;
};

/// A message of another call arrived: the ranks disagree. The communicator finds out how.
struct MismatchSeen {
  int peer;
  uint32_t callHash;
  uint32_t operation;
  uint64_t bytes;
};

}  // namespace tutti::executor
