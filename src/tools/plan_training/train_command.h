#pragma once

// The train_gpt command of a layout that `tutti plan-training` shows.

#include <string>

#include "src/tools/plan_training/plan_training.h"

namespace tutti::tools {

/// "train_gpt --device cuda --model gpt2 --context 1024 --batch 8 ...": trains what the options
/// plan, under `layout`, on the text that train_gpt has for trials; --text names another one. The
/// ranks are the product of the axes.
std::string trainCommand(const PlanTrainingOptions& options,
                         const parallel::TrainingLayout& layout);

}  // namespace tutti::tools
