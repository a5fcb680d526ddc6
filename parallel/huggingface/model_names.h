#pragma once

// Models of the literature by name, and --model, which takes one of them or a folder.

#include <optional>
#include <string>

#include "parallel/nn/model_options.h"

namespace tutti::parallel {

/// "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl" (Radford et al., "Language Models are
/// Unsupervised Multitask Learners"), "llama-7b", "llama-13b" (Touvron et al., "LLaMA" and
/// "Llama 2"), "llama-8b", "llama-70b", "llama-405b" ("The Llama 3 Herd of Models", with its
/// context of 8192), "mixtral-8x7b", "mixtral-8x22b" (Jiang et al., "Mixtral of Experts"); nothing
/// for another name.
std::optional<ModelOptions> modelNamed(const std::string& name);
std::string modelNames();  ///< all of them: "gpt2, gpt2-medium, ..."

/// What --model says: one of these, or a folder with a config.json. Throws InvalidArgument for
/// anything else, and as readConfig().
ModelOptions modelOfFlag(const std::string& name);

}  // namespace tutti::parallel
