#pragma once

// Additions to global memory by copies that reduce: atomic for each element.

#include <cuda.h>

#include <cstdint>

#include "tests/emulation/state.h"

namespace tutti::emulation {

/// Adds `bytes` bytes of elements at `from` to those at `to`.
void addElements(CUtensorMapDataType type, char* to, const char* from, uint32_t bytes, Site site);

}  // namespace tutti::emulation
