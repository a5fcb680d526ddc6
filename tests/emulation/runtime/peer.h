#pragma once

// Which devices reach each other's memory, and which pairs lie: what TUTTI_EMULATION_PEERS says of
// all processes, and what a test adds in its own.

namespace tutti::emulation {

/// From now on `device` has no peer access to `peer`. A kernel there that stores a word which
/// others wait for in memory of `peer` is an error.
void forbidPeerAccess(int device, int peer);
/// From now on these two have no native atomic operations on each other's memory, as over PCIe.
void joinByPcie(int device, int peer);
/// From now on, where a kernel on `device` raises a flag in memory of `peer`, one bit of the line
/// behind the flag is another than was written.
void corruptWrites(int device, int peer);
/// From now on one bit of what a copy on a stream of `device` writes from memory of a device to
/// memory of `peer` is another, where the copy is larger than a flag and in no graph. Where they
/// are one device, in memory of other processes alone.
void corruptCopies(int device, int peer);

// For the stand-in, under its lock.

/// Before a kernel runs: its stores are looked at where some pair is apart, or lies.
void watchPeers();
/// Whether the device may map memory of the one at this place in the machine.
bool mayReach(int device, int place);
/// Whether a copy on a stream of `device` is to be wrong.
bool isCopyWrong(int device, const void* to, const void* from);

}  // namespace tutti::emulation
