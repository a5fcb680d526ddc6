#include "tests/parallel/parity/expert_models.h"

namespace tutti::parallel {

ExpertOptions ladderExperts(int64_t perToken, double capacityFactor) {
  return {.count = kLadderExperts,
          .perToken = perToken,
          .capacityFactor = capacityFactor,
          .auxLoss = 0.1,
          .zLoss = 0.02,
          .normalized = perToken > 1};
}

std::vector<RunModel> expertModels(int64_t perToken, double capacityFactor) {
  GptOptions gpt{.context = 11, .layers = 2, .width = 12, .heads = 4};
  gpt.experts = ladderExperts(perToken, capacityFactor);
  LlamaOptions llama{.context = 11,
                     .layers = 2,
                     .width = 16,
                     .heads = 4,
                     .kvHeads = 2,
                     .inner = 13,
                     .ropeBase = 100};
  llama.experts = ladderExperts(perToken, capacityFactor);
  llama.experts.every = 2;
  const std::string what =
      message(", ", perToken, " of ", kLadderExperts, ", capacity ", capacityFactor);
  return {{"gpt" + what, "tp=4", gpt}, {"llama" + what, "tp=2,rep=2", llama}};
}

std::vector<RunModel> allExpertModels() {
  std::vector<RunModel> all;
  for (const int64_t perToken : {1, 2})
    for (const double capacityFactor : {0.0, 1.0})
      for (const RunModel& model : expertModels(perToken, capacityFactor)) all.push_back(model);
  return all;
}

RunOptions float64Run(const RunModel& model) {
  return {.types = DType::Float64, .model = model.options, .steps = 2};
}

void expectUneven(const RunResult& one, const RunModel& model) {
  const auto& experts =
      std::visit([](const auto& o) -> const ExpertOptions& { return o.experts; }, model.options);
  EXPECT_EQ(one.router.dropped() > 0, experts.capacityFactor > 0) << one.router.dropped();
  EXPECT_NE(one.router.loads.front(), one.router.loads.back());
}

}  // namespace tutti::parallel
