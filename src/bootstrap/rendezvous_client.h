#pragma once

// RendezvousClient: one rank's end of its connection with the rendezvous.

#include "src/base/clock.h"
#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/wire/setup_connection.h"

namespace tutti::bootstrap {

class RendezvousClient {
 public:
  /// Connects and authenticates; tries again when nothing listens yet and rank 0 is to open the
  /// rendezvous. Throws Refused, Timeout, or what interrupts it. `owner`: Identity::rendezvousOf.
  RendezvousClient(const Rendezvous& point, int rank, int size, base::Deadline deadline,
                   Interruption interruption = {}, std::string owner = {});

  void send(const SetupMessage& message);
  /// For loops that wait for other things too.
  void watch(wire::PollSet& set) const { connection_->watch(set); }
  /// Moves bytes and takes in Progress. Throws what a Failure says, and PeerLost when the
  /// rendezvous
  ///  is gone.
  void advance(const wire::PollSet& set);
  /// This rank's address towards the rendezvous; nothing where they meet at a Unix socket.
  std::optional<wire::Address> ownAddress() const { return wire::localAddress(connection_->fd()); }
  bool hasTable() const { return table_.has_value(); }
  const Table& table() const { return *table_; }
  bool complete() const { return complete_; }
  /// Throws Timeout with `waitingFor` and what the rendezvous knows, and what interrupts set-up.
  void checkDeadline(const std::string& waitingFor) const;
  /// Says why this rank cannot go on, and makes sure that it is heard. Returns what the rendezvous
  ///  answers, or its end: the first reason that it heard, which is often the better one,
  /// because a rank that gives up looks like one that has died. Ends the connection.
  std::optional<Error> giveUp(const Failure& failure) noexcept;

 private:
  void connect();
  bool tryConnect();
  std::string lackingFamily(int error) const;
  [[noreturn]] void nobodyListens() const;
  void take(const SetupMessage& message);
  [[noreturn]] void rethrow(const Failure& failure) const;
  std::optional<Error> say(const Failure& failure) noexcept;
  std::string describe() const;
  std::string silence() const;

  Rendezvous point_;
  int rank_, size_;
  base::Deadline deadline_;
  Interruption interruption_;
  std::string owner_;
  std::optional<SetupConnection> connection_;
  std::optional<Table> table_;
  bool arrived_ = false;  // has said so
  bool complete_ = false;
  bool failed_ = false;     // the rendezvous has said so
  bool hasSpoken_ = false;  // the rendezvous has said anything
  std::string progress_ = "the rendezvous has said nothing yet";
  std::chrono::steady_clock::time_point heardAt_{};  // of the rendezvous
};

}  // namespace tutti::bootstrap
