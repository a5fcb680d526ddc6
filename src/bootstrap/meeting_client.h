#pragma once

// MeetingClient: one rank's end of its connection with the meeting point.

#include <stop_token>

#include "src/base/clock.h"
#include "src/bootstrap/meeting_point.h"
#include "src/bootstrap/wire/setup_connection.h"

namespace tutti::bootstrap {

class MeetingClient {
 public:
  /// Connects and authenticates; tries again when nothing listens yet and rank 0 is to open the
  /// meeting point. Throws Refused, Timeout or Aborted.
  MeetingClient(const MeetingPoint& point, int rank, int size, base::Deadline deadline,
                std::stop_token stop = {});

  void send(const SetupMessage& message);
  /// For loops that wait for other things too.
  void watch(PollSet& set) const { connection_->watch(set); }
  /// Moves bytes and takes in Progress. Throws what a Failure says, and PeerLost when the meeting
  /// point is gone.
  void advance(const PollSet& set);
  /// This rank's address towards the meeting point; nothing where they meet at a Unix socket.
  std::optional<Address> ownAddress() const { return localAddress(connection_->fd()); }
  bool hasTable() const { return table_.has_value(); }
  const Table& table() const { return *table_; }
  bool complete() const { return complete_; }
  /// Throws Timeout with `waitingFor` and what the meeting point knows, and Aborted after a request
  /// to stop.
  void checkDeadline(const std::string& waitingFor) const;
  /// Says why this rank cannot go on, and makes sure that it is heard. Returns what the meeting
  /// point answers, or its end: the first reason that it heard, which is often the better one,
  /// because a rank that gives up looks like one that has died. Ends the connection.
  std::optional<Error> giveUp(const Failure& failure) noexcept;

 private:
  void connect();
  bool tryConnect();
  [[noreturn]] void nobodyListens() const;
  void take(const SetupMessage& message);
  [[noreturn]] void rethrow(const Failure& failure) const;
  std::optional<Error> say(const Failure& failure) noexcept;
  std::string describe() const;

  MeetingPoint point_;
  int rank_, size_;
  base::Deadline deadline_;
  std::stop_token stop_;
  std::optional<SetupConnection> connection_;
  std::optional<Table> table_;
  bool arrived_ = false;  // has said so
  bool complete_ = false;
  bool failed_ = false;  // the meeting point has said so
  std::string progress_ = "the meeting point has said nothing yet";
};

}  // namespace tutti::bootstrap
