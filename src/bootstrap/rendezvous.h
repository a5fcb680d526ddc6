#pragma once

// Rendezvous: what a UniqueId holds, as fields. The 128 bytes are
//   0 magic, 8 version, 12 family, 13 flags, 14 port, 16 IP, 32 socket name, 64 job, 80 secret,
//   112 checksum (BLAKE2b-128 of all before)
// in little-endian order. With a socket name, port and IP are those of `network`, or zero. Without
// one its first 4 bytes are the zone of the IP, on the host that made the id.

#include <tutti/communicator.h>

#include "src/wire/address.h"
#include "src/wire/handshake.h"

namespace tutti::bootstrap {

struct Rendezvous {
  wire::Address address;
  std::optional<wire::Address> network =
      {};  ///< of the same rendezvous, where `address` is of Unix
  wire::Credentials credentials;
  /// The rendezvous is opened by rank 0 when it joins, not by whoever made the id: others wait
  /// for it to appear. So with ids that are derived from a launcher's variables.
  bool openedByRankZero = false;
  /// Another job may have the very same: set-up takes a moment longer, to notice its ranks.
  bool mayBeAnothersToo = false;
};

UniqueId encode(const Rendezvous& point);
/// Throws InvalidArgument when `id` is damaged, empty or of another version.
Rendezvous decode(const UniqueId& id);

/// A new secret and job at a new Unix address of this host.
Rendezvous randomRendezvous();
/// What to say where ranks do not meet at a loopback address.
inline constexpr const char* kLoopbackRendezvous =
    "; a loopback address leads to rank 0 on its own host only: where ranks are on several hosts, "
    "set TUTTI_ADDRESS=host:port (or MASTER_ADDR) on all of them to an address of rank 0's host "
    "that the others reach";
/// One line for messages.
std::string describeAddresses(const Rendezvous& point);

}  // namespace tutti::bootstrap
