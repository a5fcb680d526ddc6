#pragma once

// What this process tells the others about itself, and PeerInfo as bytes.

#include <span>
#include <string>

#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {

/// The kernel's, of this boot of the machine; "unknown" where it cannot be read. Containers of one
/// machine have the same.
std::string bootId();

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
