#include "parallel/nn/expert_options.h"

#include <cmath>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

void check(const ExpertOptions& o, int64_t layers) {
  require(o.count >= 0, "a block cannot have ", o.count, " experts");
  if (o.count == 0) return;
  require(o.perToken > 0 && o.perToken <= o.count, "a token cannot go to ", o.perToken, " of ",
          o.count, " experts");
  require(o.capacityFactor >= 0 && std::isfinite(o.capacityFactor),
          "a capacity is a finite factor above 0, or 0 where there is none, not ",
          o.capacityFactor);
  for (const double loss : {o.auxLoss, o.zLoss})
    require(loss >= 0 && std::isfinite(loss),
            "a router's loss counts by a finite number from 0 on, not by ", loss);
  require(o.every > 0 && o.every <= layers, "of ", layers, " blocks each ", o.every,
          "th cannot have experts");
}

}  // namespace tutti::parallel
