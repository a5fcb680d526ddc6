#pragma once

// A model of any kind, for programs that learn which one from a file or a flag.

#include <memory>
#include <variant>

#include "parallel/nn/gpt.h"
#include "parallel/nn/llama.h"

namespace tutti::parallel {

using ModelOptions = std::variant<GptOptions, LlamaOptions>;

/// Throws InvalidArgument, naming the option, when it cannot be built.
std::unique_ptr<Model> makeModel(const ModelOptions& options);

int64_t contextOf(const ModelOptions& options);
int64_t vocabularyOf(const ModelOptions& options);
/// The same model for sequences of at most so many tokens.
ModelOptions withContext(ModelOptions options, int64_t context);

}  // namespace tutti::parallel
