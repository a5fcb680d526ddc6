#pragma once

// Maps of a rank's experts, one product for each: rows are put together by expert, and weights and
// biases are stacked, [experts of this rank, ...].

#include "parallel/kernels/kernels.h"
#include "parallel/nn/expert_parallel.h"

namespace tutti::parallel {

/// Calls visit(this rank's expert, its rows) for each.
template <class Visit>
void forEachExpert(const ExpertTraffic& traffic, const Visit& visit) {
  for (size_t e = 0; e < traffic.experts.size(); ++e)
    visit(static_cast<int64_t>(e), traffic.experts[e]);
}

/// Without its first dimension.
Tensor ofExpert(const Tensor& stacked, int64_t expert);

/// What all experts' products have: `weight` and the epilogue's bias are stacked, and of the other
/// matrices each has its rows.
struct ExpertProduct {
  Tensor a, weight, c;
  bool back = false;  ///< a * weight, else a * weight^T
  double beta = 0;
  GemmEpilogue epilogue{};
};
void multiply(Kernels& kernels, const ExpertTraffic& traffic, const ExpertProduct& product);

}  // namespace tutti::parallel
