#pragma once

// Which layouts of some devices a planner looks at: those that divide, in families whose members
// differ in what a search chooses among.
//
// A new axis of parallelism enters here, as a loop of familiesOf(), and in the terms of a Predictor
// if its exchanges are of a new kind.

#include <vector>

#include "parallel/planner/training_layout.h"

namespace tutti::parallel {

struct LayoutSpace {
  int devices = 1;
  int ranksPerHost = 1;  ///< the most ranks of tensor parallelism, which stay on a host
  /// Of a sequence, on each rank of context parallelism: with fewer it costs more than it gives.
  int64_t leastTokens = 1;
  std::vector<ScheduleKind> schedules = {ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
                                         ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV};
};

/// What does not change within a family: the mesh, and which state is shared out.
struct LayoutFamily {
  MeshShape mesh;
  int zero = 0;
};

/// All whose ranks divide heads, layers, experts and the batch: tp, pp, cp and ep are divisors, and
/// all other ranks are data-parallel. Nothing is shared out, or the optimizer's state (stage 1), or
/// everything (stage 3): over all of these, but at most 128, or over a host's, or, where one host
/// has all, over any divisor. Throws InvalidArgument where there is none.
std::vector<LayoutFamily> familiesOf(const TrainingJob& job, const LayoutSpace& space);

/// Its member that holds least: one sequence at a time, all recomputed, gradients added at
/// once, nothing kept.
TrainingLayout leanest(const TrainingJob& job, const LayoutFamily& family);
/// Members by the number of micro-batches: of 1 sequence, and without a pipeline of up to 8.
std::vector<TrainingLayout> membersOf(const TrainingJob& job, const LayoutFamily& family);
/// The same with other schedules (ZB-V where ranks times micro-batches are 512 at most, for its
/// order is found by a search); without sequence parallelism, and heads that are exchanged along
/// cp; with two sequences in a micro-batch; with stage 2 for stage 1, and with gathered weights
/// that are not resharded in stage 3.
std::vector<TrainingLayout> variantsOf(const TrainingJob& job, const LayoutSpace& space,
                                       const TrainingLayout& layout);
/// How often its gradients can be added: from once to after each micro-batch, which holds least.
std::vector<int> roundsOf(const TrainingLayout& layout);

int64_t layersOf(const ModelOptions& model);

}  // namespace tutti::parallel
