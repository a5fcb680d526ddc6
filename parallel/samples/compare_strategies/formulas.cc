#include "parallel/samples/compare_strategies/formulas.h"

namespace tutti::parallel {

namespace {

constexpr double kParameter = sizeof(float), kGradient = sizeof(float),
                 kMoments = 2 * sizeof(float);

/// Of a rank, before the data-parallel ranks share anything out.
double parametersOf(const ModelOptions& model, const MeshShape& mesh) {
  const auto [all, experts] = std::visit(
      [](const auto& o) { return std::pair(parameterCount(o), expertParameterCount(o)); }, model);
  return (all - experts + experts / mesh[Axis::Expert]) /
         mesh.ranks(kTensorAxes | AxisSet{Axis::Pipeline});
}

}  // namespace

StateBytes stateOf(const StoreMemory& memory) {
  return {
      .parameters = static_cast<double>(memory.weights - memory.gathered + memory.masters),
      .gradients = static_cast<double>(memory.gradients - memory.borrowed + memory.gradientShards),
      .optimizer = static_cast<double>(memory.optimizer)};
}

StateBytes formulaState(const ModelOptions& model, const TrainingLayout& layout) {
  const double all = parametersOf(model, layout.mesh), shard = all / layout.mesh[Axis::Fsdp];
  return {.parameters = kParameter * (layout.zero >= 3 ? shard : all),
          .gradients = kGradient * (layout.zero >= 2 ? shard : all),
          .optimizer = kMoments * (layout.zero >= 1 ? shard : all)};
}

double sentBytes(const Collectives& collectives, const MeshShape& mesh) {
  double sent = 0;
  for (const auto& [axes, c] : collectives) {
    const double ranks = mesh.ranks(axes), ofOthers = (ranks - 1) / ranks;
    const size_t once = c.reduceScatter.bytes + c.allGather.bytes + c.allToAll.bytes;
    sent += ofOthers * (2 * static_cast<double>(c.allReduce.bytes) + static_cast<double>(once)) +
            static_cast<double>(c.sent.bytes);
  }
  return sent;
}

std::optional<double> formulaSent(const ModelOptions& model, const TrainingLayout& layout) {
  const MeshShape& mesh = layout.mesh;
  const double shards = mesh[Axis::Fsdp], replicas = mesh[Axis::Data];
  if (mesh.ranks() != mesh.ranks({Axis::Data, Axis::Fsdp})) return std::nullopt;
  const double bytes = kParameter * parametersOf(model, mesh);
  const bool everyPass = layout.zero == 3 && layout.reshard == Reshard::AfterForward;
  const double gathers = shards == 1 ? 0 : everyPass ? 2 * layout.microBatches : 1;
  const double ofShards = (gathers + layout.rounds) * (shards - 1) / shards * bytes;
  return ofShards + layout.rounds * 2 * (replicas - 1) / replicas * bytes / shards;
}

}  // namespace tutti::parallel
