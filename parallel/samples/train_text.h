#pragma once

// What train_gpt learns from, as --text, --tokens and --tokenizer say.

#include <memory>

#include "parallel/data/token_data.h"
#include "parallel/samples/train_options.h"

namespace tutti::parallel {

/// That of --tokenizer, or bytes. Throws InvalidArgument when it cannot be read, and when the file
/// of --tokens was made with another one.
std::unique_ptr<Tokenizer> tokenizerOf(const TrainOptions& options);
/// Throws InvalidArgument naming the file.
TokenData readTokens(const TrainOptions& options, const Tokenizer& tokenizer);

}  // namespace tutti::parallel
