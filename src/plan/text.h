#pragma once

// Plans in words, for people: error messages, `tutti plan`, golden files.

#include <span>
#include <string>

#include "src/plan/plan.h"

namespace tutti::plan {

/// "in 2" or "mapped 3 out 2+4" or "channel 1 chunk 2" or "signal 1"
std::string toText(const Port& port);
/// "listed(channel 3 chunk 2, in 2) -> channel 1 chunk 2, completes, after 0.1"
std::string toText(const Step& step);
/// The spec on one line, then each rank's lanes and steps.
std::string toText(const PlanSpec& spec, std::span<const Program> programs);

}  // namespace tutti::plan
