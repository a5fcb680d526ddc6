#pragma once

// A network of N ranks in one process. It looks into the senders' rings for what was published and
// into the receivers' for what was given back, sends packets that are late, lost, doubled or
// overtaken as its dice say, and repeats them until they are confirmed. Links come into being when
// they are first used, so a thousand ranks that talk to few peers each fit in little memory.
//
// Single-threaded on virtual time: call advance() whenever no rank has anything to do; the same
// options and calls give the same run, whose traceHash() can be compared. With threads: any
// endpoint's progress() moves what is due by the real clock, under a lock that is only tried for.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/clock.h"
#include "tests/support/sim/link.h"
#include "tests/support/sim/options.h"
#include "tests/support/sim/random.h"
#include "tests/support/sim/trace.h"
#include "transports/connection.h"

namespace tutti::transports::sim {

class SimNetwork;

/// The network's time, from 0 at its making: virtual or real as its drive is.
class SimClock final : public base::Clock {
 public:
  explicit SimClock(Drive drive);
  int64_t nowNs() const override;

 private:
  friend class SimNetwork;
  const Drive drive_;
  const int64_t startNs_;
  std::atomic<int64_t> virtualNs_{0};
};

class SimNetwork {
 public:
  /// Throws InvalidArgument for impossible sizes, layouts or options.
  SimNetwork(int size, const RingLayout& layout, const SimOptions& options);
  ~SimNetwork();

  int size() const { return size_; }
  const RingLayout& layout() const { return layout_; }
  const SimOptions& options() const { return options_; }
  const base::Clock& clock() const { return clock_; }
  uint64_t number() const { return number_; }  ///< differs between the networks of a process

  /// Virtual drive: goes to the next event and handles what is due. False when nothing is under
  /// way: nothing will ever happen unless some rank does something.
  bool advance();
  /// Threads drive: handles what is due, for one rank. True when something moved.
  bool progress(int rank);

  /// From now on `rank` sends nothing, and what is sent to it vanishes. What it sent before still
  /// arrives.
  void kill(int rank);
  bool alive(int rank) const;
  /// Links on which `rank` has sent something zero-copy that is not confirmed are cut, and nothing
  /// more is put into its direct slots.
  void cancelZeroCopy(int rank);
  /// As Endpoint::goDirect() of `to`.
  void goDirect(int from, int to, int channel, const DirectSlots& slots);
  /// Called once for each death, in their order, by whoever moves the network, without its lock.
  /// Set before the network is used.
  void onDeath(std::function<void(int rank)> callback) { deathCallback_ = std::move(callback); }

  /// The link of one ring; made if need be.
  SimLink& link(int from, int to, int channel);
  size_t linkCount() const;

  uint64_t traceHash() const;
  uint64_t count(Happening what) const;
  /// Packets on the wire and timers that run.
  size_t pendingEvents() const;
  /// Seed, options, counts and the last events: what a failing test prints.
  std::string describe() const;

 private:
  struct Event {
    int64_t atNs;
    uint64_t order;  // breaks ties in the order of their making
    enum Kind { Arrival, DataTimer, CreditTimer, Death } kind;
    Packet packet;  // of an arrival; a timer uses its link only
    int rank;       // of a death
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tie(a.atNs, a.order) > std::tie(b.atNs, b.order);
    }
  };
  struct Rank {
    bool alive = true;
    bool touched = false;         // in touched_
    int64_t packets = 0;          // sent
    int64_t lastPacket = kNever;  // after which it dies
    std::vector<SimLink*> links;  // that lead from or to it
  };

  bool collect(Rank& rank);
  bool collect(SimLink& link);
  void collectTouched();
  void touch(int rank);
  void send(const Packet& packet, Happening how);
  void launch(const Packet& packet, size_t bytes);
  void push(int64_t atNs, Event::Kind kind, Packet packet, int rank = -1);
  void start(Timer& timer, Event::Kind kind, SimLink& link);
  bool handle(Event event);
  void arrive(const Packet& packet);
  bool expire(SimLink& link, Event::Kind kind);
  void resend(SimLink& link, Event::Kind kind);
  void die(int rank);
  bool handleNext();
  void reportDeaths();
  int64_t patience(const Timer& timer) const;
  void note(Happening what, const Packet& packet);

  const int size_;
  const RingLayout layout_;
  const SimOptions options_;
  const uint64_t number_;
  SimClock clock_;
  std::function<void(int)> deathCallback_;

  mutable std::mutex mutex_;  // guards what follows
  int64_t nowNs_ = 0;
  SimRandom random_;
  SimTrace trace_;
  uint64_t lastOrder_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<SimLink>> links_;
  std::vector<Rank> ranks_;
  std::vector<int> touched_;  // ranks that may have published or given back something
  std::vector<int> deaths_;   // not yet reported
};

}  // namespace tutti::transports::sim
