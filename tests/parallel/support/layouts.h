#pragma once

// How the ranks of a job may share its work: the presets of the store, tensor parallelism, and
// pairs of them, with buckets of a size that fits small models.

#include <string>
#include <vector>

#include "tests/parallel/support/runs.h"

namespace tutti::parallel {

struct Arrangement {
  std::string name;
  MeshShape mesh;
  ShardPolicy policy;
  bool sequence = false;  ///< what lies between branches is cut by rows
  PipelineOptions pipeline = {};
  ContextAttention attention = ContextAttention::Ring;
};

MeshShape mesh(int replicas, int shards);
ShardPolicy zero(int stage);
ShardPolicy fsdp(Reshard::When when, int backwards = 1);

/// "dp=2,tp=2" and how its ranks share out; "" is one rank. Its name says all of that.
Arrangement arrangement(const std::string& mesh, const ShardPolicy& policy = zero(0),
                        bool sequence = false);
/// The same with a pipeline, of `mesh`'s ranks along pp.
Arrangement piped(Arrangement layout, const PipelineOptions& pipeline);
/// The same with attention that exchanges positions for heads, of `mesh`'s ranks along cp.
Arrangement exchanging(Arrangement layout);
ModelOptions sequenceParallel(ModelOptions model);
/// `model` as the layout cuts its activations.
ModelOptions cut(const Arrangement& layout, ModelOptions model);

/// `options` under that arrangement; in deterministic mode where they are.
RunOptions under(const Arrangement& layout, RunOptions options);

/// Every preset over `ranks`, and hybrids where they divide.
std::vector<Arrangement> layouts(int ranks);
/// `mesh`, of dp and fsdp, with nothing shared out along fsdp, every stage of ZeRO, and the last
/// with weights that stay from forward to backward, or until the step.
std::vector<Arrangement> hybrids(const std::string& mesh);
/// `mesh` with every stage of ZeRO along fsdp, and the last with weights that stay.
std::vector<Arrangement> sharings(const std::string& mesh, bool sequence = false);
/// One of each kind, on 2 to 8 ranks: each axis and each pair. `heads` is what cuts a layer's heads
/// over four ranks: "tp=4", or "tp=2,rep=2".
std::vector<Arrangement> layoutsOfEachKind(const std::string& heads);

}  // namespace tutti::parallel
