#pragma once

// The flight recorder: the last operations of a communicator and the one that is running, always
// on, readable by the monitor's thread at any moment and printed when something fails. Three short
// locks an operation, which the monitor takes a few times a second.

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/bytes.h"
#include "src/plan/plan.h"

namespace tutti::communicator {

/// What ranks must agree on about one collective.
struct CallFacts {
  plan::Collective collective = plan::Collective::Barrier;
  DataType type = DataType::UInt8;
  ReduceOp op = ReduceOp::Sum;
  bool deterministic = false;
  plan::Algorithm algorithm = plan::Algorithm::Ring;
  int32_t root = 0;
  uint64_t count = 0;                   ///< of all blocks where they differ
  uint64_t blocksHash = 0;              ///< of their sizes and places; 0 where they are the same
  std::array<uint64_t, 2> reduction{};  ///< the name of one of the caller's own, instead of `op`
  uint64_t planHash = 0;                ///< of the chosen plans

  bool operator==(const CallFacts&) const = default;
  uint32_t fingerprint() const;
  std::string describe() const;  ///< "all_reduce of 1024 float32, sum, by ring"
  void write(base::ByteWriter& out) const;
  static CallFacts read(base::ByteReader& in);
};

/// A name of up to 16 characters in two words.
std::array<uint64_t, 2> nameWords(const std::string& name);

/// Sends and receives that one rank makes together. Ranks agree about each pair's transfers only.
struct ExchangeFacts {
  uint64_t sends = 0, receives = 0;
  uint64_t bytesSent = 0, bytesReceived = 0;
  bool operator==(const ExchangeFacts&) const = default;
  std::string describe() const;  ///< "2 sends of 80 bytes and 1 receive of 40 bytes"
};

/// Launched: on a GPU, and ended who knows when.
enum class CallPhase : uint8_t { Issued, Running, Launched, Done, Failed };

class Recorder {
 public:
  struct Entry {
    uint64_t number = 0;    ///< among this rank's operations, from 1
    uint64_t sequence = 0;  ///< among its collectives, the same on all ranks, or its exchanges
    std::variant<CallFacts, ExchangeFacts> facts;
    CallPhase phase = CallPhase::Issued;
    int waitingFor = -1;
    int64_t waitingSinceNs = 0;  ///< for the first of those that it has waited for
    uint64_t bytesReceived = 0;

    const CallFacts* collective() const { return std::get_if<CallFacts>(&facts); }
    std::string name() const;         ///< "operation 3", or "exchange 2"
    std::string describe() const;     ///< of the facts
    std::string nameAndCall() const;  ///< "operation 3, all_reduce of ..."
  };

  static constexpr size_t kEntries = 64;

  /// With number, sequence and facts.
  void issued(const Entry& entry);
  /// One at a time. It is kept also when more than kEntries were issued after it.
  void running(const Entry& entry);
  void waiting(uint64_t number, int peer, uint64_t bytesReceived, int64_t sinceNs);
  void finished(uint64_t number, CallPhase phase);

  /// Nothing when the operation was not issued yet or is too long ago.
  std::optional<Entry> find(uint64_t number) const;
  std::optional<Entry> findCollective(uint64_t sequence) const;
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
