#pragma once

// Watchdog: a communicator's ear on the control plane. It hears what other ranks say and what has
// become of them, asks a rank that is waited for what it is doing, answers such questions, and
// finds stragglers, ranks that left too early, networks that are cut and ranks that are in
// different calls. What it finds fails the communicator. It also notices that the program exits.
//
// It owns what it has seen at its last looks, and handles Inquiry and Status. Only the monitor's
// thread calls it, for one communicator never twice at the same time, so that no lock protects its
// state. listen() and stop() are for the thread that makes and ends the communicator. The monitor
// calls it from listen() until stop() returns: stop() comes before any owner is destroyed.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/at_exit.h"
#include "src/base/clock.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/failure/network_watch.h"
#include "src/communicator/gpu/gpu_watchdog.h"
#include "src/communicator/message_types.h"
#include "src/communicator/owners.h"
#include "src/communicator/recorder.h"

namespace tutti::communicator {

/// A rank that has been waited for this long is asked what it is doing, and again.
constexpr int64_t kInquireAfterNs = 100'000'000, kInquireAgainNs = 1'000'000'000;

// What runs here looks after itself, too.
/// How long what a rank sent before it left may be under way.
constexpr int64_t kLeaverNs = 200'000'000;
/// How long after a transport's connection the control plane may take to say what became of the
/// peer.
constexpr int64_t kBreakNs = 250'000'000;

class Watchdog final : public bootstrap::ControlListener {
 public:
  explicit Watchdog(const Owners& owners);

  void listen();
  bool listens() const { return listens_; }
  void stop();

  // The program's exit, where the communicator is there still. Other threads may be in calls
  // meanwhile, and stay there: what they have not sent is not sent.
  /// Among the exit handlers.
  void atExit(base::AtExit::Stop drain);
  /// After all of them, and after static objects: these may still make calls.
  void beforeTheEnd(std::function<void()> sayGoodbye);
  /// Neither is called from now on.
  void forgetExit();

  void onMessage(int from, bootstrap::ControlMessage message) override;
  void onPeerLost(int peer, const std::string& how) override;
  void onPeerLeft(int peer) override;
  void onTick() override;

 private:
  void answer(int peer, const message::InquiryMessage& inquiry);
  void compareWaits(int peer, const message::StatusMessage& theirs);
  void lookAt(const Recorder::Entry& entry);
  bool lookForLeavers(const Recorder::Entry& entry);
  void reportStraggler(const Recorder::Entry& entry, int64_t waitedNs) const;

  const Owners& owners_;
  const base::SteadyClock clock_;
  bool listens_ = false;
  GpuWatchdog gpu_;
  NetworkWatch network_;
  uint64_t operation_ = 0;
  int peer_ = -1;
  int64_t lastInquiryNs_ = 0;
  bool straggling_ = false;
  std::optional<base::AtExit> atExit_, beforeTheEnd_;
};

}  // namespace tutti::communicator
