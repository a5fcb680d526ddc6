#pragma once

// Multicast objects: memory of several devices behind one address, for multimem instructions. What
// is bound stands in a table that processes share; each maps what the others have bound.

#include <cuda.h>

#include <cstddef>

namespace tutti::emulation {

struct MulticastTable;

/// Before a kernel runs: tells the emulation what was bound or unbound since. Without any lock.
void refreshMulticasts();

/// Waits until all devices of a multicast object were added; not at all for other handles. Without
/// any lock.
void waitForTeam(CUmemGenericAllocationHandle handle);

// Under the runtime's lock.

void addMulticastMapping(char* start, size_t bytes, MulticastTable* table);
void removeMulticastMapping(char* start);
/// The table in the file of a multicast object, and its size; null where the file is no such one.
MulticastTable* openMulticast(int file, size_t& bytes);
void closeMulticast(MulticastTable* table);

}  // namespace tutti::emulation
