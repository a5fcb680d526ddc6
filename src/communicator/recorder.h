#pragma once

// The flight recorder: the last operations of a communicator and the one that is running, always
// on, readable by the monitor's thread at any moment and printed when something fails. Three short
// locks an operation, which the monitor takes a few times a second; one of a series, collectives
// alike that are run without a break, takes none.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/executor/call.h"
#include "src/executor/exchange.h"

namespace tutti::communicator {

using executor::CallFacts;
using executor::ExchangeFacts;

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

  // A series, by the thread that issues; one that is issued otherwise ends it.
  /// Begins with `first`, which is running now.
  void beginSeries(const Entry& first);
  /// Another one, with the next number and sequence, is running now.
  void repeat() {
    repeats_.store(repeats_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// The last one is done. running() may have been called for it meanwhile.
  void repeatDone() {
    repeatsDone_.store(repeats_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  /// Nothing when the operation was not issued yet or is too long ago.
  std::optional<Entry> find(uint64_t number) const;
  std::optional<Entry> findCollective(uint64_t sequence) const;
  /// Oldest first.
  std::vector<Entry> recent() const;
  /// The running operation and the last `limit`, a line each, oldest first.
  std::string describe(size_t limit) const;

 private:
  Entry& slot(uint64_t number) { return slots_[number % kEntries]; }
  /// One of the series, counted from 1.
  Entry ofSeries(uint64_t index) const;
  void endSeries();

  mutable std::mutex mutex_;
  std::array<Entry, kEntries> slots_;
  Entry running_;  // the last one that began; its slot is behind, or another's
  Entry series_;   // the first one of it
  std::atomic<uint64_t> repeats_{0}, repeatsDone_{0};  // of the series, the first one included
};

}  // namespace tutti::communicator
