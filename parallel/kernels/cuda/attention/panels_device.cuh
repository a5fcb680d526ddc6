#pragma once

// Tiles of a head's rows for Hopper: TMA brings them to shared memory, and wgmma reads them there.
// Columns are cut into panels of 64, or of 32 or 16 where the head width is no multiple of that. A
// panel has a row after the other, of 128, 64 or 32 bytes, and TMA and wgmma swizzle it as wide as
// these are, so that eight rows of a panel are read from different banks.
//
// A tile is a factor both ways. Along its columns (K-major) 16 of them are 32 bytes of the rows of
// a panel; along its rows (MN-major) 16 of them lie together in each panel.
//
// A block's own tile has kWideRows rows, 64 for each of two warpgroups that compute; a third one
// loads (forward may have three of the former). Registers are those that all have together, 65536.

#include "parallel/kernels/cuda/attention/tiles_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kWideThreads = 3 * 128, kWideRows = 128, kGroupRows = 64;
inline constexpr int kReaders = 8;  ///< warps that compute, which release what they have read

template <int kWidth, int kRows>
struct alignas(1024) HeadPanels {
  static constexpr int kColumns = panelColumns(kWidth), kRowBytes = 2 * kColumns;
  static constexpr int kPanelBytes = kRows * kRowBytes;
  static constexpr uint32_t kBytes = kWidth / kColumns * kPanelBytes;
  static constexpr ptx::Swizzle kSwizzle = kColumns == 64   ? ptx::Swizzle::Bytes128
                                           : kColumns == 32 ? ptx::Swizzle::Bytes64
                                                            : ptx::Swizzle::Bytes32;
  char bytes[kBytes];

  /// Loads rows of a head from `first` on, which count kBytes at the barrier. Those that are not
  /// there are zeros.
  TUTTI_DEVICE void load(const CUtensorMap* map, int32_t batch, int32_t head, int32_t first,
                         uint64_t& barrier) {
#pragma unroll
    for (int panel = 0; panel < kWidth / kColumns; ++panel)
#pragma unroll
      for (int row = 0; row < kRows; row += kBoxRows) {
        const int at[3] = {head * kWidth + panel * kColumns, first + row, batch};
        ptx::tensorLoad(ptx::sharedAddress(bytes + panel * kPanelBytes + row * kRowBytes), map, at,
                        ptx::sharedAddress(&barrier));
      }
  }

  /// For products that sum over columns: rows from a multiple of 8 on, 16 columns from `column` on.
  TUTTI_DEVICE uint64_t alongColumns(int row, int column) const {
    const char* const from = bytes + column / kColumns * kPanelBytes + row * kRowBytes;
    return ptx::wgmmaDescriptor(ptx::sharedAddress(from) + column % kColumns * 2, 16, 8 * kRowBytes,
                                kSwizzle);
  }
  /// For products that sum over rows: 16 from `row` on, and all columns.
  TUTTI_DEVICE uint64_t alongRows(int row) const {
    return ptx::wgmmaDescriptor(ptx::sharedAddress(bytes + row * kRowBytes), kPanelBytes,
                                8 * kRowBytes, kSwizzle);
  }
};

/// Begins to load a tile that is all that its barrier waits for.
template <class Panels>
TUTTI_DEVICE void fill(Panels& to, uint64_t& full, const CUtensorMap* map, int32_t batch,
                       int32_t head, int32_t first) {
  ptx::mbarrierArriveExpectTx(ptx::sharedAddress(&full), Panels::kBytes);
  to.load(map, batch, head, first, full);
}

/// Which stage of a ring a step has, and in which of its turns, modulo two.
template <int kStages>
struct RingStage {
  int index;
  uint32_t parity;
  TUTTI_DEVICE explicit RingStage(int32_t step)
      : index(step % kStages), parity(uint32_t(step / kStages % 2)) {}
};

/// What a block has behind it, of tiles that had steps: how many, and their steps. Rings go on from
/// tile to tile, and what is loaded once a tile has a barrier with a turn for each of these.
struct TilesBefore {
  int32_t tiles = 0, steps = 0;
  TUTTI_DEVICE uint32_t parity() const { return uint32_t(tiles) % 2; }
  TUTTI_DEVICE void add(int32_t stepsOfTile) {
    tiles += stepsOfTile > 0 ? 1 : 0;
    steps += stepsOfTile;
  }
};

/// A warp has read a stage.
TUTTI_DEVICE void releaseStage(uint64_t& empty) {
  if (laneOf() == 0) ptx::mbarrierArrive(ptx::sharedAddress(&empty));
}

/// Rounds what a warpgroup has of a product to the left factor of the next: a lane's elements of
/// two neighbouring column tiles are what it has of 16 columns.
template <class Numbers, int kSteps, int kCount>
TUTTI_DEVICE void packLeft(uint32_t (&left)[kSteps][4], const float (&from)[kCount]) {
  static_assert(kCount == 8 * kSteps);
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      left[i][e] = Numbers::pack(from[8 * i + 2 * e], from[8 * i + 2 * e + 1]);
}

}  // namespace tutti::parallel::cuda
