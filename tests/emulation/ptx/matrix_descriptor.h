#pragma once

// Where a wgmma operand lies in shared memory. A chunk is 16 bytes: eight 16-bit elements, along k
// (K-major) or along rows (MN-major). In units of bytes, with width w the swizzle's (16 for none):
//   K-major     chunk (row, k / 8):  row % 8 * w + row / 8 * stride + k / 8 * 16, without swizzle
//               k / 8 * leading
//   MN-major    chunk (k, row / 8):  k % 8 * w + k / 8 * stride + row / 8 % (w / 16) * 16 +
//               row / 8 / (w / 16) * leading; without swizzle stride and leading change places
// The sum, from the start address on, is then swizzled: bits 4 to 6 are XORed with bits 7 to 9, as
// many of them as the width has.

#include "tests/emulation/ptx/swizzle.h"
#include "tests/emulation/shared_memory.h"

namespace tutti::emulation {

class MatrixDescriptor {
 public:
  MatrixDescriptor(uint64_t bits, cuda::ptx::Major major, Site site)
      : start_(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading_(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride_(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4),
        swizzle_(static_cast<cuda::ptx::Swizzle>(bits >> 62)),
        kMajor_(major == cuda::ptx::Major::K) {
    // A start inside an atom's eight rows needs a base offset, which nobody here gives.
    if ((bits >> 49 & 7) != 0) failAt(site, "wgmma: a descriptor with a base offset");
    if ((start_ & (atomBytes(swizzle_) - 1) & ~0x7fu) != 0)
      failAt(site, "wgmma: a matrix that starts inside a swizzle atom's rows, at " +
                       std::to_string(start_));
  }

  /// The shared address of a chunk: (row, k / 8) K-major, (k, row / 8) MN-major.
  uint32_t chunk(int line, int inLine) const {
    const uint32_t width = widthBytes(swizzle_);
    const auto across = static_cast<uint32_t>(line), along = static_cast<uint32_t>(inLine);
    uint32_t at = start_ + across % 8 * width;
    if (kMajor_)
      at += across / 8 * stride_ + along * (swizzle_ == cuda::ptx::Swizzle::None ? leading_ : 16);
    else if (swizzle_ == cuda::ptx::Swizzle::None)
      at += across / 8 * leading_ + along * stride_;
    else
      at += across / 8 * stride_ + along % (width / 16) * 16 + along / (width / 16) * leading_;
    return swizzled(at, swizzle_);
  }

 private:
  uint32_t start_, leading_, stride_;
  cuda::ptx::Swizzle swizzle_;
  bool kMajor_;
};

}  // namespace tutti::emulation
