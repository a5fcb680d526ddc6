#include "parallel/samples/fsdp_tp/fsdp_tp_memory.h"

#include <algorithm>

#include "parallel/dry/dry_run.h"
#include "parallel/engine/describe.h"
#include "parallel/samples/device.h"

namespace tutti::parallel {

/// GPT has as many heads of keys and values as of queries, so no ranks share them.
MeshShape fsdpTpMesh(int ranks, int tp) {
  require(ranks % tp == 0, "--tp ", tp, " does not divide ", ranks, " ranks");
  MeshShape shape;
  shape[Axis::Fsdp] = ranks / tp;
  shape[Axis::Tensor] = tp;
  return shape;
}

EngineOptions fsdpTpEngine(const SampleOptions& o) {
  ShardPolicy policy = ShardPolicy::fsdp();
  policy.deterministic = o.deterministic;
  return {.policy = policy, .seed = kSampleSeed};
}

TrainingMemory plannedMemory(const MeshShape& mesh, int rank, const SampleOptions& o) {
  Gpt model(o.model);
  return dryRun({.mesh = mesh,
                 .rank = rank,
                 .engine = fsdpTpEngine(o),
                 .batch = o.batch,
                 .context = o.model.context,
                 .device = kindOf(o.device)},
                model, *makeAdamW({}))
      .memory;
}

namespace {

/// Whether the batch has a micro-batch for each rank of fsdp, and heads can be dealt out.
bool isPossible(const MeshShape& mesh, const SampleOptions& o) {
  try {
    plannedMemory(mesh, 0, o);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument) throw;
    return false;
  }
}

}  // namespace

std::vector<int> possibleTp(int ranks, const SampleOptions& o) {
  std::vector<int> possible;
  for (int tp = 1; tp <= ranks; ++tp)
    if (ranks % tp == 0 && isPossible(fsdpTpMesh(ranks, tp), o)) possible.push_back(tp);
  require(!possible.empty(), ranks, " ranks can train this model on this batch with no --tp");
  return possible;
}

/// Rank 0 has the larger part of whatever is cut unevenly.
void requireFit(const MeshShape& mesh, const SampleOptions& o, uint64_t limit) {
  const TrainingMemory memory = plannedMemory(mesh, 0, o);
  if (limit == 0 || memory.total() <= limit) return;
  const std::vector<int> possible = possibleTp(mesh.ranks(), o);
  const auto fits = std::ranges::find_if(possible, [&](int tp) {
    return plannedMemory(fsdpTpMesh(mesh.ranks(), tp), 0, o).total() <= limit;
  });
  fail(ErrorCode::OutOfMemory, "rank 0 of ", mesh.describe(), " ", describe(memory),
       "which is more than --memory-limit, ", bytesText(limit), ": ",
       fits == possible.end() ? message("with no --tp up to ", possible.back(), " it fits")
                              : message("the least that fits is --tp ", *fits));
}

}  // namespace tutti::parallel
