#include "parallel/samples/compare_strategies/formulas.h"

namespace tutti::parallel {

namespace {

double bytesOf(DType type) { return static_cast<double>(sizeOf(type)); }

/// Whether the optimizer updates a copy of the weights, and not the weights.
bool mastersApart(const StoreTypes& types) { return types.weights != types.master; }

/// Of a rank, before the data-parallel ranks share anything out.
double parametersOf(const ModelOptions& model, const MeshShape& mesh) {
  const auto [all, experts] = std::visit(
      [](const auto& o) { return std::pair(parameterCount(o), expertParameterCount(o)); }, model);
  return (all - experts + experts / mesh[Axis::Expert]) /
         mesh.ranks(kTensorAxes | AxisSet{Axis::Pipeline});
}

}  // namespace

StateBytes stateOf(const StoreMemory& memory, const StoreTypes& types) {
  const bool apart = mastersApart(types);
  return {
      .parameters =
          static_cast<double>(memory.weights - memory.gathered + (apart ? 0 : memory.masters)),
      .gradients = static_cast<double>(memory.gradients - memory.borrowed + memory.gradientShards),
      .optimizer = static_cast<double>(memory.optimizer + (apart ? memory.masters : 0))};
}

StateBytes formulaState(const TrainingJob& job, const TrainingLayout& layout) {
  const double all = parametersOf(job.model, layout.mesh), shard = all / layout.mesh[Axis::Fsdp];
  const int kept = mastersApart(job.types) ? 3 : 2;  // the moments, and masters
  return {.parameters = bytesOf(job.types.weights) * (layout.zero >= 3 ? shard : all),
          .gradients = bytesOf(job.types.gradients) * (layout.zero >= 2 ? shard : all),
          .optimizer = kept * bytesOf(job.types.master) * (layout.zero >= 1 ? shard : all)};
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

std::optional<double> formulaSent(const TrainingJob& job, const TrainingLayout& layout) {
  const MeshShape& mesh = layout.mesh;
  const double shards = mesh[Axis::Fsdp], replicas = mesh[Axis::Data];
  if (mesh.ranks() != mesh.ranks({Axis::Data, Axis::Fsdp})) return std::nullopt;
  const double all = parametersOf(job.model, mesh), weights = bytesOf(job.types.weights) * all,
               gradients = bytesOf(job.types.gradients) * all * layout.rounds;
  const bool everyPass = layout.zero == 3 && layout.reshard == Reshard::AfterForward;
  const double gathers = shards == 1 ? 0 : everyPass ? 2 * layout.microBatches : 1;
  const double ofShards = (gathers * weights + gradients) * (shards - 1) / shards;
  return ofShards + 2 * (replicas - 1) / replicas * gradients / shards;
}

}  // namespace tutti::parallel
