#pragma once

// What an epilogue makes of a sum, in float64, and how far from it a kernel may be that computes in
// float32. An error of 0 means that the bits are known.

#include "parallel/kernels/activation.h"

namespace tutti::parallel::cuda {

struct Near {
  double value = 0, error = 0;
  bool isWithin(double got, double unit) const;  ///< `unit`: half of the last place, relative
};

struct EpilogueInput {
  Near sum;
  Activation activation = Activation::None;
  double scale = 1, bias = 0;
  double inner[2] = {0, 0};                         ///< its halves, where they are read
  double residual[2] = {0, 0}, before[2] = {0, 0};  ///< of c's halves
};
struct EpilogueResult {
  Near kept;
  Near c[2];  ///< its halves
};
EpilogueResult epilogueOf(const EpilogueInput& input);

}  // namespace tutti::parallel::cuda
