#pragma once

// From nothing to a control plane: who this rank is, where its job meets, and the authenticated
// connections between all its ranks.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <tutti/communicator.h>

#include "src/base/clock.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/ticket.h"

namespace tutti::bootstrap {

/// Who this rank is and where it meets the others.
struct Identity {
  int rank = -1;  ///< -1: malformed
  int size = -1;  ///< the same
  UniqueId id;    ///< rendezvous and secret
  std::string
      source;  ///< "explicit arguments", "tutti run", "torchrun", ...: logged at debug level
  /// What leaves open who this rank is, where it is known who is to be told: join() throws it.
  std::optional<Error> malformed = {};
  /// Of a rank of a communicator that grows; else none.
  Ticket ticket = {};
  /// Whose process has the rendezvous, for messages: "rank 0 (pid 7 on host n)"; empty: unknown.
  std::string rendezvousOf = {};
  std::string describe() const;  ///< "rank 2 of 4"; "a rank" where that is malformed
};

/// What ends set-up before its time; looked at every 100 ms.
struct Interruption {
  std::stop_token stop = {};  ///< ends it with Aborted
  /// Of something that set-up depends on: ends it with that failure.
  std::function<std::optional<Error>()> failure = {};
};

/// The process that had the rendezvous has ended, or lost its connection: of code PeerLost.
class RendezvousLost final : public Error {
 public:
  explicit RendezvousLost(const std::string& text) : Error(ErrorCode::PeerLost, text) {}
};

/// The first source that speaks, in the order of docs/reference/environment.md. With no launcher at
/// all: rank 0 of 1. Throws InvalidArgument naming the variable that is malformed, missing or
/// contradictory, where nobody can be told.
Identity discover(const CommunicatorOptions& options);

/// Joins the job: meets at the identity's address, authenticates both ways, exchanges addresses,
/// and connects to every other rank. Throws Refused, Timeout or System within the deadline, and
/// what interrupts it; nothing is left behind. A rank that cannot take part tells the others why;
/// the one whose process has the rendezvous stays, within its deadline, until all have been told.
/// It does not stay where a communicator grows: its process goes on.
std::shared_ptr<ControlPlane> join(const Identity& identity, base::Deadline deadline,
                                   const Interruption& interruption = {});

}  // namespace tutti::bootstrap
