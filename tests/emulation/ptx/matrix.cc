// Matrices held by a warp; see include/tutti/cuda/ptx/matrix.cuh.

#include <cstring>

#include "tests/emulation/ptx/numbers.h"
#include "tests/emulation/shared_memory.h"
#include "tests/emulation/warp.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

constexpr uint32_t kRowBytes = 16;

/// A lane's part in ldmatrix and stmatrix: the row that it addresses, and its registers.
struct MatrixLane {
  uint16_t row[8];
  uint32_t registers[4];
  unsigned matrices;
  bool transposed;
};

/// Element (row, column) of matrix `i` that half `half` of lane's register i holds.
uint16_t& element(void** slots, unsigned i, unsigned lane, unsigned half, bool transposed) {
  unsigned row = lane / 4, column = 2 * (lane % 4) + half;
  if (transposed) std::swap(row, column);
  return static_cast<MatrixLane*>(slots[8 * i + row])->row[column];
}

void completeLoad(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "ldmatrix");
  for (unsigned lane = 0; lane < 32; ++lane) {
    auto& own = *static_cast<MatrixLane*>(slots[lane]);
    for (unsigned i = 0; i < own.matrices; ++i)
      own.registers[i] = element(slots, i, lane, 0, own.transposed) |
                         uint32_t(element(slots, i, lane, 1, own.transposed)) << 16;
  }
}

void completeStore(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "stmatrix");
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<MatrixLane*>(slots[lane]);
    for (unsigned i = 0; i < own.matrices; ++i)
      for (unsigned half = 0; half < 2; ++half)
        element(slots, i, lane, half, own.transposed) =
            static_cast<uint16_t>(own.registers[i] >> 16 * half);
  }
}

void loadMatrices(uint32_t* to, unsigned count, uint32_t row, bool transposed, Site site) {
  Thread& thread = thisThread("ldmatrix");
  MatrixLane own{};
  own.matrices = count;
  own.transposed = transposed;
  if (laneOf(thread) < 8 * count) {
    const char* const from = sharedBytes(row, kRowBytes, kRowBytes, *thread.block, site);
    touchRead(from, kRowBytes, "ldmatrix");
    Ignored ignored;
    std::memcpy(own.row, from, kRowBytes);
  }
  meetInWarp(kFullWarp, &own, completeLoad, false, site);
  std::copy_n(own.registers, count, to);
}

void storeMatrices(uint32_t row, const uint32_t* from, unsigned count, bool transposed, Site site) {
  Thread& thread = thisThread("stmatrix");
  MatrixLane own{};
  own.matrices = count;
  own.transposed = transposed;
  std::copy_n(from, count, own.registers);
  meetInWarp(kFullWarp, &own, completeStore, false, site);
  if (laneOf(thread) >= 8 * count) return;
  char* const to = sharedBytes(row, kRowBytes, kRowBytes, *thread.block, site);
  touchWrite(to, kRowBytes, "stmatrix");
  Ignored ignored;
  std::memcpy(to, own.row, kRowBytes);
}

/// A lane's part in mma.sync.
struct MmaLane {
  float* d;
  uint32_t* dHalves;
  const uint32_t *a, *b;
};

struct Tiles {
  float a[16][16], b[16][8], d[16][8];
};

/// d += a b by one rounding per product, k from 0 on. (A tensor core rounds in another order.)
void multiply(Tiles& tiles, int depth) {
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < depth; ++k)
      for (int column = 0; column < 8; ++column)
        tiles.d[row][column] += tiles.a[row][k] * tiles.b[k][column];
}

template <float (*kConvert)(uint16_t)>
float halfOf(uint32_t word, int half) {
  return kConvert(static_cast<uint16_t>(word >> 16 * half));
}

template <float (*kConvert)(uint16_t)>
void gather16(void** slots, Tiles& tiles) {
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<MmaLane*>(slots[lane]);
    const int g = lane / 4, q = 2 * (lane % 4);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i)
        tiles.a[g + 8 * (i % 2)][q + 8 * (i / 2) + half] = halfOf<kConvert>(own.a[i], half);
      for (int i = 0; i < 2; ++i) tiles.b[q + 8 * i + half][g] = halfOf<kConvert>(own.b[i], half);
    }
  }
}

/// Reads d into the tile, or writes it back.
void moveFloats(void** slots, Tiles& tiles, bool back) {
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<MmaLane*>(slots[lane]);
    for (int i = 0; i < 4; ++i) {
      float& inTile = tiles.d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
      if (back)
        own.d[i] = inTile;
      else
        inTile = own.d[i];
    }
  }
}

template <float (*kConvert)(uint16_t)>
void completeMma16(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "mma.sync");
  Tiles tiles;
  gather16<kConvert>(slots, tiles);
  moveFloats(slots, tiles, false);
  multiply(tiles, 16);
  moveFloats(slots, tiles, true);
}

void completeMmaTf32(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "mma.sync");
  Tiles tiles;
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<MmaLane*>(slots[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) tiles.a[g + 8 * (i % 2)][t + 4 * (i / 2)] = fromTf32(own.a[i]);
    for (int i = 0; i < 2; ++i) tiles.b[t + 4 * i][g] = fromTf32(own.b[i]);
  }
  moveFloats(slots, tiles, false);
  multiply(tiles, 8);
  moveFloats(slots, tiles, true);
}

void completeMmaHalves(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "mma.sync");
  Tiles tiles;
  gather16<fromF16>(slots, tiles);
  const auto at = [&tiles](int lane, int i, int half) -> float& {
    return tiles.d[lane / 4 + 8 * i][2 * (lane % 4) + half];
  };
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i)
      for (int half = 0; half < 2; ++half)
        at(lane, i, half) = halfOf<fromF16>(static_cast<MmaLane*>(slots[lane])->dHalves[i], half);
  multiply(tiles, 16);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i)
      static_cast<MmaLane*>(slots[lane])->dHalves[i] =
          toF16(at(lane, i, 0)) | uint32_t(toF16(at(lane, i, 1))) << 16;
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

#define TUTTI_MATRICES(count)                                                 \
  void ldmatrix(uint32_t(&to)[count], uint32_t row, Site site) {              \
    loadMatrices(to, count, row, false, site);                                \
  }                                                                           \
  void ldmatrixTrans(uint32_t(&to)[count], uint32_t row, Site site) {         \
    loadMatrices(to, count, row, true, site);                                 \
  }                                                                           \
  void stmatrix(uint32_t row, const uint32_t(&from)[count], Site site) {      \
    storeMatrices(row, from, count, false, site);                             \
  }                                                                           \
  void stmatrixTrans(uint32_t row, const uint32_t(&from)[count], Site site) { \
    storeMatrices(row, from, count, true, site);                              \
  }
TUTTI_MATRICES(1)
TUTTI_MATRICES(2)
TUTTI_MATRICES(4)

#define TUTTI_MMA(name, complete)                                                    \
  void name(float(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2], Site site) { \
    MmaLane own{d, nullptr, a, b};                                                   \
    meetInWarp(kFullWarp, &own, complete, false, site);                              \
  }
TUTTI_MMA(mmaBf16, completeMma16<fromBf16>)
TUTTI_MMA(mmaF16, completeMma16<fromF16>)
TUTTI_MMA(mmaTf32, completeMmaTf32)

void mmaF16ToF16(uint32_t (&d)[2], const uint32_t (&a)[4], const uint32_t (&b)[2], Site site) {
  MmaLane own{nullptr, d, a, b};
  meetInWarp(kFullWarp, &own, completeMmaHalves, false, site);
}

namespace {

struct Election {
  bool elected;
};

void completeElection(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "elect.sync");
  for (int lane = 0; lane < 32; ++lane) static_cast<Election*>(slots[lane])->elected = lane == 0;
}

}  // namespace

bool electOne(Site site) {
  Election own{};
  meetInWarp(kFullWarp, &own, completeElection, false, site);
  return own.elected;
}

}  // namespace tutti::cuda::ptx
