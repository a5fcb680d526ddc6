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

/// "gpt2", "llama" and "mixtral", a Llama with experts, by their "model_type". Throws
/// InvalidArgument, beginning with `where` and with the key named.
ModelOptions parseConfig(const std::string& where, std::string_view text);
/// Of the folder's config.json.
ModelOptions readConfig(const std::filesystem::path& folder);

/// A config.json of weights of that type, as `transformers` reads it. What it has no key for, as
/// that a GPT has experts, has one of ours, so that parseConfig() gives the same options.
std::string configText(const ModelOptions& options, DType type);

/// Throws InvalidArgument, naming it, when `transformers` would compute something else.
void requireExportable(const ModelOptions& options);

}  // namespace tutti::parallel
