#pragma once

// What the books say that a rank holds and sends under a strategy with AdamW, to lay beside what is
// counted: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", figure 1 and section 7. P parameters on N ranks that share the state out, in float32:
//
// |        | parameters | gradients | optimizer state | sent in a step        |
// |--------|------------|-----------|-----------------|-----------------------|
// | DDP    | 4 P        | 4 P       | 8 P             | 2 (N-1)/N of 4 P      |
// | ZeRO-1 | 4 P        | 4 P       | 8 P / N         | the same              |
// | ZeRO-2 | 4 P        | 4 P / N   | 8 P / N         | the same              |
// | ZeRO-3 | 4 P / N    | 4 P / N   | 8 P / N         | 3 (N-1)/N of 4 P      |
//
// In bfloat16 with float32 masters, which count as optimizer state, 4 P, 4 P and 8 P are 2 P, 2 P
// and 12 P.

#include <optional>

#include "parallel/planner/training_layout.h"
#include "parallel/store/parameter_store.h"

namespace tutti::parallel {

/// Bytes of the training state that a rank holds from step to step.
struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  double total() const { return parameters + gradients + optimizer; }
  bool operator==(const StateBytes&) const = default;
};

/// That of what a store holds: without buffers of collectives, gathered weights, and gradients that
/// are about to be added over the ranks. Masters of another type than the weights count as
/// optimizer state.
StateBytes stateOf(const StoreMemory& memory, const StoreTypes& types);
/// By the table, of a mean rank where layers or experts are shared out, too.
StateBytes formulaState(const TrainingJob& job, const TrainingLayout& layout);

/// What a rank sends to others in these collectives, in bytes: of S bytes over p ranks 2 S (p-1)/p
/// in an AllReduce, S (p-1)/p in a ReduceScatter, AllGather and AllToAll, and messages as they are.
double sentBytes(const Collectives& collectives, const MeshShape& mesh);
/// The same of a step by the table, with weights that are gathered for each pass of a micro-batch
/// in stage 3. Only of layouts whose ranks are all data-parallel.
std::optional<double> formulaSent(const TrainingJob& job, const TrainingLayout& layout);

}  // namespace tutti::parallel
