#pragma once

// RendezvousServer: the rendezvous's end of set-up, a thread in the process that opened it.
//
//   a rank connects, proves that it knows the secret, and says Arrival
//   all have arrived              -> Table to each
//   all have said Connected       -> Complete to each, and the server ends
//   one fails, ends, or differs   -> Failure to each, and the server ends
//   meanwhile                     -> Progress to each, for the messages of their timeouts
//
// After a failure it stays a little, to tell the reason to ranks that come late. Where a rank came
// to say that it cannot take part, and nothing else is wrong, it stays until all have come.

#include <memory>
#include <stop_token>

#include "src/base/clock.h"
#include "src/bootstrap/rendezvous_thread.h"

namespace tutti::bootstrap {

class RendezvousServer {
 public:
  /// Listens, and serves until set-up is complete, failed, or `lifetime` has passed. Throws System
  /// when an address cannot be listened at.
  RendezvousServer(const Rendezvous& point, std::chrono::milliseconds lifetime);
  /// The same for a job that meets where others do, at a thread that serves many.
  RendezvousServer(const std::shared_ptr<RendezvousThread>& thread,
                   std::shared_ptr<Meeting> meeting)
      : thread_(thread), meeting_(std::move(meeting)) {}
  /// Ends the server. Ranks that are still in set-up are told so. In a forked child: nothing.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  bool finished() const { return meeting_->finished(); }
  /// Why it has failed, if it has.
  std::optional<Failure> failure() const { return meeting_->failure(); }
  /// Set-up has no use any more: ranks are told why. So are those that come later.
  void giveUp(const Failure& why);
  /// Where a rank said that it cannot take part: until all others have heard, the deadline, or a
  /// request to stop. Else returns at once.
  void awaitAllTold(base::Deadline deadline, const std::stop_token& stop) const {
    meeting_->awaitAllTold(deadline, stop);
  }
  /// As given, with the port of `network` where the kernel has chosen it.
  const Rendezvous& point() const { return meeting_->point(); }

  static constexpr std::chrono::milliseconds kLinger = Meeting::kLinger;

 private:
  std::weak_ptr<RendezvousThread> thread_;  // gone once all that met there is over
  std::shared_ptr<Meeting> meeting_;
  const base::ProcessGuard guard_;
};

/// Opens a rendezvous of this process: for an id, or for a communicator that grows. It ends when
/// its job is complete or has failed, or with its lifetime.
std::shared_ptr<RendezvousServer> openRendezvous(UniqueId::Reach reach,
                                                 std::chrono::milliseconds lifetime,
                                                 const ExistingRanks& existing = {});

/// Of this process's ids: the rendezvous of that job; nothing where it is gone, or elsewhere.
std::shared_ptr<RendezvousServer> rendezvousOpenedHere(const wire::JobId& job);

}  // namespace tutti::bootstrap
