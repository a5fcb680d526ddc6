#pragma once

// What the emulated cuTensorMapEncodeTiled writes into the opaque 128 bytes of a CUtensorMap.

#include <cuda.h>

#include <cstdint>

#include "tests/emulation/ptx/swizzle.h"

namespace tutti::emulation {

struct TensorMap {
  static constexpr uint32_t kMagic = 0x544d4150;

  uint32_t magic = 0;
  uint8_t rank = 0;
  uint8_t elementBytes = 0;
  uint8_t swizzle = 0;  // cuda::ptx::Swizzle
  uint8_t type = 0;     // CUtensorMapDataType
  char* base = nullptr;
  uint64_t size[5] = {};         // elements; the contiguous dimension first
  uint64_t strideBytes[5] = {};  // of dimension 0 none
  uint16_t box[5] = {};          // elements

  uint32_t boxBytes() const {
    uint32_t bytes = elementBytes;
    for (int i = 0; i < rank; ++i) bytes *= box[i];
    return bytes;
  }
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

/// cuTensorMapEncodeTiled: refuses what the driver's documentation refuses.
CUresult encodeTensorMap(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                         const cuuint64_t* size, const cuuint64_t* strideBytes,
                         const cuuint32_t* box, const cuuint32_t* elementStrides,
                         CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                         CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

}  // namespace tutti::emulation
