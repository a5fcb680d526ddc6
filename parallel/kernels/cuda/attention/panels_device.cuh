#pragma once

// Tiles of a head's rows for Hopper: TMA brings them to shared memory, and wgmma reads them there.
// Columns are cut into panels of 64, or of 32 or 16 where the head width is no multiple of that. A
// panel has a row after the other, of 128, 64 or 32 bytes, and TMA and wgmma swizzle it as wide as
// these are, so that a panel's eight rows are read from different banks.
//
// A tile is a factor both ways. Along its columns (K-major) 16 of them are 32 bytes of the rows of
// a panel; along its rows (MN-major) 16 of them lie together in each panel.

#include "parallel/kernels/cuda/attention/tiles_device.cuh"

namespace tutti::parallel::cuda {

template <int kWidth>
struct alignas(1024) HeadPanels {
  static constexpr int kColumns = panelColumns(kWidth), kRowBytes = 2 * kColumns;
  static constexpr int kPanelBytes = kPanelRows * kRowBytes;
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
    for (int panel = 0; panel < kWidth / kColumns; ++panel) {
      const int at[3] = {head * kWidth + panel * kColumns, first, batch};
      ptx::tensorLoad(ptx::sharedAddress(bytes + panel * kPanelBytes), map, at,
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

}  // namespace tutti::parallel::cuda
