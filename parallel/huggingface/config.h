#pragma once

// config.json of a Hugging Face folder: which model its weights are of. What our models do not do
// is refused by the key that asks for it; keys that change nothing about the logits (dropout,
// cache, ids of special tokens, ...) are taken without effect, and keys that nobody knows are
// refused.

#include <filesystem>
#include <string>
#include <string_view>

#include "parallel/nn/model_options.h"

namespace tutti::parallel {

/// "gpt2" and "llama" by their "model_type". Throws InvalidArgument, beginning with `where` and
/// with the key named.
ModelOptions parseConfig(const std::string& where, std::string_view text);
/// Of the folder's config.json.
ModelOptions readConfig(const std::filesystem::path& folder);

/// A config.json of weights of that type, as `transformers` reads it.
std::string configText(const ModelOptions& options, DType type);

}  // namespace tutti::parallel
