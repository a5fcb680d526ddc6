#pragma once

// The folders that train_gpt fills, looked at before the first step: what is found wrong with them
// only at the end costs a whole training.

#include "parallel/samples/train_gpt/train_options.h"

namespace tutti::parallel {

/// Throws InvalidArgument naming the folder: when that of --export is there already; when that of
/// --checkpoints has a run and --resume is not given; and when it is given, and the newest
/// checkpoint's model has other sizes, with the flag that has them. Throws System when
/// --checkpoints cannot be read. What one process says is true of all that share the file system.
void checkFolders(const TrainOptions& options);

}  // namespace tutti::parallel
