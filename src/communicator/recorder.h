#pragma once

// The flight recorder: the last operations of a communicator and the one that is running, always
// on, readable by the monitor's thread at any moment and printed when something fails. Three short
// locks an operation, which the monitor takes a few times a second.

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/plan/plan.h"

namespace tutti::communicator {

/// What ranks must agree on about one call.
struct CallFacts {
  plan::Collective collective = plan::Collective::Barrier;
  DataType type = DataType::UInt8;
  ReduceOp op = ReduceOp::Sum;
  bool deterministic = false;
  plan::Algorithm algorithm = plan::Algorithm::Ring;
  int32_t root = 0;
  uint64_t count = 0;
  uint64_t planHash = 0;  ///< of the chosen plans

  bool operator==(const CallFacts&) const = default;
  uint32_t fingerprint() const;
  std::string describe() const;  ///< "all_reduce of 1024 float32, sum, by ring"
  void write(base::ByteWriter& out) const;
  static CallFacts read(base::ByteReader& in);
};

enum class Phase : uint8_t { Issued, Running, Done, Failed };

class Recorder {
 public:
  struct Entry {
    uint64_t number = 0;  ///< of the operation, from 1
    CallFacts facts;
    Phase phase = Phase::Issued;
    int waitingFor = -1;
    int64_t runningSinceNs = 0;
    uint64_t bytesReceived = 0;
  };

  static constexpr size_t kEntries = 64;

  void issued(uint64_t number, const CallFacts& facts);
  /// One at a time. It is kept also when more than kEntries were issued after it.
  void running(uint64_t number, const CallFacts& facts, int64_t nowNs);
  void waiting(uint64_t number, int peer, uint64_t bytesReceived);
  void finished(uint64_t number, Phase phase);

  /// Nothing when the operation was not issued yet or is too long ago.
  std::optional<Entry> find(uint64_t number) const;
  /// Oldest first.
  std::vector<Entry> recent() const;
  /// The running operation and the last `limit`, a line each, oldest first.
  std::string describe(size_t limit) const;

 private:
  Entry& slot(uint64_t number) { return slots_[number % kEntries]; }

  mutable std::mutex mutex_;
  std::array<Entry, kEntries> slots_;
  Entry running_;  // the last one that began; its slot is behind, or another's
};

}  // namespace tutti::communicator
