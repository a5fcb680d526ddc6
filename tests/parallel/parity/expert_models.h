#pragma once

// Small models with experts, for the rungs.

#include "tests/parallel/parity/rungs.h"

namespace tutti::parallel {

inline constexpr int64_t kLadderExperts = 4;

/// Of each block, with both losses of routers.
ExpertOptions ladderExperts(int64_t perToken, double capacityFactor);

/// A GPT and a Llama of which nothing divides but what has to. Llama's second block alone has
/// experts.
std::vector<RunModel> expertModels(int64_t perToken, double capacityFactor);
/// Top-1 and top-2, with a capacity and without.
std::vector<RunModel> allExpertModels();

/// Two steps in float64.
RunOptions float64Run(const RunModel& model);

/// Of one rank's run of `model`: some choices are dropped where there is a capacity, and only
/// there; experts are not used alike.
void expectUneven(const RunResult& one, const RunModel& model);

}  // namespace tutti::parallel
