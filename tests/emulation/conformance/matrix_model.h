#pragma once

// Matrices by element, and which lane's register holds which, as the figures of the PTX ISA give
// it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace tutti::emulation::conformance {

template <class T>
struct Grid {
  int rows, columns;
  std::vector<T> values;

  Grid(int r, int c) : rows(r), columns(c), values(size_t(r) * size_t(c)) {}
  Grid(int r, int c, std::vector<T> v) : rows(r), columns(c), values(std::move(v)) {}
  T& at(int row, int column) { return values[size_t(row) * size_t(columns) + size_t(column)]; }
  const T& at(int row, int column) const {
    return values[size_t(row) * size_t(columns) + size_t(column)];
  }
};

inline uint16_t bitsOf(__nv_bfloat16 value) {
  uint16_t bits;
  std::memcpy(&bits, &value, 2);
  return bits;
}
inline uint16_t bitsOf(__half value) {
  uint16_t bits;
  std::memcpy(&bits, &value, 2);
  return bits;
}
inline uint32_t pairOf(uint16_t low, uint16_t high) { return low | uint32_t(high) << 16; }

/// d + a b, in double.
template <class A, class D>
Grid<double> product(const Grid<A>& a, const Grid<A>& b, const Grid<D>& d) {
  Grid<double> sum(a.rows, b.columns);
  for (int row = 0; row < a.rows; ++row)
    for (int column = 0; column < b.columns; ++column) {
      double all = double(float(d.at(row, column)));
      for (int k = 0; k < a.columns; ++k)
        all += double(float(a.at(row, k))) * double(float(b.at(k, column)));
      sum.at(row, column) = all;
    }
  return sum;
}

}  // namespace tutti::emulation::conformance
