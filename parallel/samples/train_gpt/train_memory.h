#pragma once

// What a training takes of the machine's memory, from its options alone, so that one that cannot be
// is refused by the names of its flags before any rank is started.

#include "parallel/samples/train_gpt/train_options.h"

namespace tutti::parallel {

/// Bytes on each rank. Less than what it will be (backward has gradients of its own), so what does
/// not fit really does not. In float64, in which no option overflows.
struct TrainMemory {
  double text = 0;
  double model = 0;   ///< weights, gradients, state of the optimizer
  double passes = 0;  ///< what forward saves of a micro-batch

  double total() const { return text + model + passes; }
};

/// `options` must have passed checkSplit() for `ranks`.
TrainMemory trainMemory(const TrainOptions& options, int ranks);

struct MachineMemory {
  int ranks = 1;      ///< of the job
  int ranksHere = 1;  ///< of them, those that are known to share this machine
  double bytes = 0;
};

/// Throws OutOfMemory naming the flags when the ranks of this machine cannot have what they need.
void checkMemory(const TrainOptions& options, const MachineMemory& machine);

double machineMemoryBytes();

}  // namespace tutti::parallel
