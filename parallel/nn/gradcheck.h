#pragma once

// gradcheck: does a module's backward belong to its forward? In float64, every element of the input
// and of each parameter is moved, and the change of L = sum(dy * forward(x)) is compared with what
// backward says.
//
// The derivative is the five-point difference (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12 h with
// h = 2^-10: its own error is h^4 / 30 times the fifth derivative, 3e-14 of it, and the rounding of
// L, a few 1e-16 of the sum of |dy * y|, is amplified by 1.5 / h to about 1e-12. Whoever compares
// to 1e-10 of the largest gradient therefore sees any wrong term above that.

#include <string>

#include "parallel/nn/module.h"

namespace tutti::parallel {

struct GradcheckReport {
  double worst =
      0;  ///< largest |difference| over the largest |gradient| of its tensor (at least 1)
  std::string where;     ///< "blocks.0.mlp.up.weight[17]"
  int64_t elements = 0;  ///< compared
};

struct GradcheckOptions {
  Tensor input;  ///< of the host; float64 [batch, context, width] or [tokens, width]: also checked;
                 ///< int32 token ids: only the weights are
  uint64_t seed = 1;
  double weightScale = 0.5;  ///< the weights' first values are replaced by normal ones of this size
};

/// On the device of `mesh`, which has one rank, by kernels of its stream: a GPU's compute in
/// float64 too, though not by its tensor cores. `module` must not have been declared to a store
/// yet.
GradcheckReport gradcheck(DeviceMesh& mesh, Kernels& kernels, Module& module,
                          const GradcheckOptions& options);

}  // namespace tutti::parallel
