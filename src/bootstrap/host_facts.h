#pragma once

// What this process tells the others about itself, and PeerInfo as bytes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/bootstrap/control_plane.h"
#include "src/wire/address.h"

namespace tutti::bootstrap {

/// The kernel's, of this boot of the machine; "unknown" where it cannot be read. Containers of one
/// machine have the same.
std::string bootId();

/// What the kernel says of this process's host; 0 is an unknown network namespace.
struct HostFacts {
  std::string bootId;
  uint64_t networkNamespace = 0;
};
HostFacts readHostFacts();
/// Whether they alone tell a host from others.
bool areKnown(const HostFacts& facts);
/// As PeerInfo::bootId. Where a fact is unknown, as there is no /proc, other hosts' are too: what
/// tells them apart is `network`, by which other hosts reach this one. Whose ranks meet at a Unix
/// socket, and have none, are on one host.
std::string hostId(const HostFacts& facts, const std::optional<wire::Address>& network);

/// This process: host name, boot id and network namespace, pid, usable processors.
PeerInfo describeThisProcess();

void write(base::ByteWriter& out, const PeerInfo& info);
/// Throws Refused naming the field that is malformed.
PeerInfo readPeerInfo(base::ByteReader& in);

/// Checks 1 <= size <= kMaxWorldSize and 0 <= rank < size; throws InvalidArgument.
void requireMembership(int rank, int size);
/// The first half of the above.
void requireWorldSize(int64_t size);
/// Checks kMaxPayloadBytes and kMaxDescriptors; throws InvalidArgument.
void requireLimits(const ControlMessage& message);

}  // namespace tutti::bootstrap
