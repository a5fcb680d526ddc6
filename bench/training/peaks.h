#pragma once

// What this machine can do at most, on one core, measured now: what kernels are compared with.

#include <cstddef>
#include <vector>

namespace tutti::bench {

class Peaks {
 public:
  /// Float32 multiplications and additions a second, of the widest fused instructions there are, on
  /// registers alone. Takes some milliseconds.
  double flops() const;
  /// Bytes a second, read and written, of a copy of 64 MiB.
  double copied();

 private:
  std::vector<char> from_ = std::vector<char>(size_t{64} << 20, 1), to_ = from_;
};

}  // namespace tutti::bench
