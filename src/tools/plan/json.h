#pragma once

// Plans as JSON, for tools and tests: the core of the library needs no JSON.

#include <span>
#include <string>

#include "src/plan/plan.h"

namespace tutti::plan {

/// {"spec": {...}, "programs": [{"lanes": [{"channel": 0, "steps": [...]}]}]}; one line.
std::string toJson(const PlanSpec& spec, std::span<const Program> programs);

}  // namespace tutti::plan
