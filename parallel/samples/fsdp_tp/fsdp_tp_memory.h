#pragma once

// What a rank of fsdp_tp would hold: a run without data says it, so a training that does not fit is
// refused before it begins, with what would fit.

#include <cstdint>
#include <vector>

#include "parallel/samples/sample.h"

namespace tutti::parallel {

/// The learning rate.
inline constexpr double kFsdpTpRate = 0.001;
/// Throws InvalidArgument when `tp` does not divide the ranks.
MeshShape fsdpTpMesh(int ranks, int tp);
EngineOptions fsdpTpEngine(const SampleOptions& options);
TrainingMemory plannedMemory(const MeshShape& mesh, int rank, const SampleOptions& options);

/// All --tp with which so many ranks can train the model on the batch. Throws InvalidArgument when
/// there is none.
std::vector<int> possibleTp(int ranks, const SampleOptions& options);
/// Throws OutOfMemory, saying what rank 0 would hold and the least --tp that fits, when that is
/// more than `limit` bytes; 0: any number.
void requireFit(const MeshShape& mesh, const SampleOptions& options, uint64_t limit);

}  // namespace tutti::parallel
