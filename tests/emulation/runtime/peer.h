#pragma once

// For tests of what is done where devices are not joined, or badly.

namespace tutti::emulation {

/// From now on `device` has no peer access to `peer`.
void forbidPeerAccess(int device, int peer);
/// From now on these two have no native atomic operations on each other's memory, as over PCIe.
void joinByPcie(int device, int peer);
/// From now on, where a kernel on `device` raises a flag in memory of `peer`, one bit of the line
/// behind the flag is another than was written. In memory of this process alone.
void corruptWrites(int device, int peer);
/// From now on one bit of what a copy on a stream of `device` writes to memory of `peer` is
/// another, where the copy is larger than a flag and in no graph. Where they are one device, in
/// memory of other processes alone.
void corruptCopies(int device, int peer);
/// For the stand-in, under its lock: whether such a copy to `address` is to be wrong.
bool isCopyWrong(int device, const void* address);

}  // namespace tutti::emulation
