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

/// c = a * weight^T, or with `back` a * weight, expert by expert, + beta * c.
void multiply(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& a, const Tensor& weight,
              const Tensor& c, bool back, double beta);
void addBiases(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& bias, const Tensor& y);

}  // namespace tutti::parallel
