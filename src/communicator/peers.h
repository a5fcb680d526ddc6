#pragma once

// Peers: what is known of each other rank of a communicator. It owns these records, and handles
// Hello, Ready, Gpu and Goodbye. The monitor's thread writes them; set-up, operations, votes and
// the GPU backend read them. The lock of FailureState protects them: who gives a Lock holds it.
// `someoneStopped_` is raised after what it says is written, and spares operations the lock.

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <tutti/error.h>

#include "src/base/clock.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/gpu/gpu_join.h"
#include "src/communicator/membership.h"
#include "src/communicator/messages.h"

namespace tutti::communicator {

class Peers {
 public:
  using Lock = FailureState::Lock;
  /// An answer to an inquiry, and in which operation, with how many bytes, this rank waited then.
  struct Answer {
    message::StatusMessage status;
    std::pair<uint64_t, uint64_t> waited;
    bool operator==(const Answer&) const = default;
  };
  struct Peer {
    bool lost = false;
    bool left = false;
    std::optional<uint64_t> stoppedAfter;  // collectives it did before it left or shrank
    std::optional<uint64_t> leftGpuAfter;  // collectives there, when it has left
    std::optional<bootstrap::ControlMessage> hello;
    std::vector<ToldGpuState> gpu;  // in turn
    int ready = 0;                  // how often it has said so
    bool readsMemory = false;       // of all other ranks of its host
    std::optional<Answer> answer;   // the last

    bool isGone() const { return lost || left; }
  };
  /// A rank that takes part in nothing any more.
  struct Stopped {
    int peer;
    uint64_t after;
  };

  Peers(const Membership& who, Messages& messages, FailureState& failure);

  const Peer& at(int peer, const Lock&) const { return peers_[static_cast<size_t>(peer)]; }

  // The monitor's.
  /// False where it was lost before, or has left.
  bool lose(int peer);
  /// The answer before this one.
  std::optional<Answer> noteAnswer(int peer, const Answer& answer);
  void noteStopped(int peer, uint64_t after, const Lock&);

  // Anybody's.
  bool hasLeft(int peer) const;
  /// Of one that left or shrinks; `rest` follows "rank 1 left".
  Error absence(int peer, const std::string& rest) const;
  std::optional<message::StatusMessage> status(int peer) const;  ///< nothing: it has not answered
  bool someoneStopped() const { return someoneStopped_.load(std::memory_order_acquire); }
  /// A rank that left or shrinks makes collective `sequence` impossible.
  std::optional<Stopped> stoppedBefore(uint64_t sequence) const;
  /// A rank of these that left or shrinks, or -1.
  int stoppedAmong(const std::function<bool(int)>& ranks) const;

  // Set-up's.
  /// Until `arrived` holds for all others. Throws Timeout, or PeerLost for one that has left.
  void awaitAll(const char* what, base::Deadline deadline,
                const std::function<bool(const Peer&)>& arrived) const;
  /// Says that this rank is ready, until all have said so many times that they are.
  void awaitReadiness(int times, base::Deadline deadline, bool readsMemory = false);
  /// Has said so. After its first readiness.
  bool readsMemory(int peer) const;
  /// Throws what has become of the peer, else `why`.
  [[noreturn]] void cannotConnect(int peer, const Error& why) const;
  /// Which have arrived.
  bootstrap::ControlMessage takeHello(int peer);
  ToldGpuState takeGpuState(int peer, size_t round);

  /// Within this time the death of a rank of this host is known to all.
  static constexpr std::chrono::seconds kDeathIsKnown{1};

 private:
  Peer& own(int peer) { return peers_[static_cast<size_t>(peer)]; }

  const Membership& who_;
  Messages& messages_;
  FailureState& failure_;
  std::vector<Peer> peers_;
  std::atomic<bool> someoneStopped_{false};
};

}  // namespace tutti::communicator
