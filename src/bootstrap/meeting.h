#pragma once

// Meeting: one job at a rendezvous: who has arrived, what they are told, and when it is over.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/roster.h"
#include "src/bootstrap/wire/setup_connection.h"

namespace tutti::bootstrap {

class Meeting {
 public:
  /// `interface`: with the rendezvous's address for other hosts, for messages.
  Meeting(const Rendezvous& point, std::string interface, std::chrono::milliseconds lifetime,
          const ExistingRanks& existing = {});

  const Rendezvous& point() const { return point_; }

  // From the rendezvous's thread.
  /// Whoever has proved to know the secret.
  void admit(wire::HandshakeConnection known);
  void watch(wire::PollSet& set) const;
  void advance(const wire::PollSet& set);
  bool over() const;
  /// Ends all connections.
  void close() { guests_.clear(); }
  /// After it nobody waits any more.
  void finish();

  // From any thread.
  /// The process gives up: ranks are told, and it is over.
  void stop() { stop_.store(true); }
  /// Set-up has no use any more: ranks are told why. So are those that come later.
  void giveUp(const Failure& why);
  bool finished() const;
  /// Why it has failed, if it has.
  std::optional<Failure> failure() const;
  void awaitFinish() const;
  /// See RendezvousServer.
  void awaitAllTold(base::Deadline deadline, const std::stop_token& stop) const;

  /// How long it stays after a failure, for ranks that come late. Where a communicator grows, its
  /// process goes on, and it stays for its lifetime.
  static constexpr std::chrono::milliseconds kLinger{2000};
  /// How long a whole world waits for ranks of another job, where there may be one of the same
  /// name.
  static constexpr std::chrono::milliseconds kSettleTime{300};

 private:
  using Time = std::chrono::steady_clock;
  struct Guest {
    SetupConnection connection;
    int rank = -1;  // -1: it has not said Arrival, or was refused
    bool ofThisProcess = false;
    bool connected = false;  // said Connected
    bool leaving = false;    // is told why, and then closed
    std::string told;        // the progress that it knows
    Time::time_point toldAt{};
  };

  void serve(Guest& guest);
  void onArrival(Guest& guest, const Arrival& arrival);
  void onConnected(Guest& guest);
  void failIfGivenUp();
  void completeIfSettled();
  void dismissLate();
  void onFailure(Guest& guest, const Failure& failure);
  void fail(const Failure& why, bool isRefusal = false);
  void noteTold(const wire::Claim& claim);
  bool allTold() const;
  void tell(const SetupMessage& message);
  std::string progress() const;
  std::string unconnected() const;
  void tellProgress();
  void sweep();

  const Rendezvous point_;
  const std::string interface_;
  Roster roster_;
  std::vector<Guest> guests_;
  const std::chrono::milliseconds lifetime_;
  Time::time_point end_;  // when it gives up, or, when it is over, goes away
  Time::time_point nextProgress_{};
  int connected_ = 0;
  std::optional<Time::time_point> settled_;  // when all are connected: when that is believed
  bool complete_ = false;
  std::optional<Failure> failure_;    // set under mutex_, by the rendezvous's thread
  std::atomic<bool> refused_{false};  // by a rank that cannot take part: the failure
  // Then: who has heard of it, or said it, by rank; how many more, who do not know theirs; and of
  // how many, 0 as long as none has said so.
  std::set<int> told_;
  int toldMore_ = 0, toldOf_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool finished_ = false;           // under mutex_
  std::optional<Failure> givenUp_;  // the same
};

}  // namespace tutti::bootstrap
