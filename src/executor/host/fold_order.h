#pragma once

// In which order a step's sources are added on the host.

#include <tutti/types.h>

#include "src/numbers/fold.h"
#include "src/plan/plan.h"

namespace tutti::executor {

/// In deterministic mode every addition rounds to the type, so that the expression alone decides
/// the bits, however it is spread over steps. Otherwise reduced types are accumulated in float32,
/// rank by rank.
inline numbers::FoldOrder foldOrder(const plan::Step& step, DataType type, bool deterministic) {
  const bool isReduced = type == DataType::Float16 || type == DataType::BFloat16 ||
                         type == DataType::Float8E4M3 || type == DataType::Float8E5M2;
  const bool tree = step.fold == plan::Fold::Canonical;
  if (deterministic)
    return tree ? numbers::FoldOrder::Canonical : numbers::FoldOrder::ListedRounded;
  return tree && !isReduced ? numbers::FoldOrder::Canonical : numbers::FoldOrder::Listed;
}

}  // namespace tutti::executor
