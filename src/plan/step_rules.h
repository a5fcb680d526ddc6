#pragma once

// What makes one step a sensible one, whatever the others do. Used by the checker.

#include <string>

#include "src/plan/plan.h"

namespace tutti::plan {

/// What is wrong with `step` of `rank`; empty when nothing is.
std::string faultOfStep(const PlanSpec& spec, int rank, const Step& step);
/// What is wrong with the spec by itself; empty when nothing is.
std::string faultOfSpec(const PlanSpec& spec);

}  // namespace tutti::plan
