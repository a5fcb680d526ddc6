#pragma once

// What train_gpt learns from and begins with, as --text, --tokens, --tokenizer and --init-from say.

#include <memory>

#include "parallel/data/loader.h"
#include "parallel/data/token_data.h"
#include "parallel/samples/train_gpt/train_options.h"

namespace tutti::parallel {

/// That of --tokenizer, or bytes. Throws InvalidArgument when it cannot be read, and when the file
/// of --tokens was made with another one.
std::unique_ptr<Tokenizer> tokenizerOf(const TrainOptions& options);
/// Takes the model of --init-from, if that is given, and the vocabulary. Throws InvalidArgument,
/// naming the flag, when model, tokenizer and tokens do not fit, and as checkPipeline() does for a
/// model that it takes.
void fillModel(TrainOptions& options);
/// Throws InvalidArgument naming the file.
TokenData readTokens(const TrainOptions& options, const Tokenizer& tokenizer);
/// What is evaluated of the text for validation: all of it, or what --validation-tokens says.
/// Throws InvalidArgument where no label of that counts.
Windows validationWindows(const TrainOptions& options, const TokenView& validation);
/// What tells a text from others, without reading all of it: how many tokens it has, and a checksum
/// of the first and the last ones.
std::string fingerprint(const TokenView& text);

}  // namespace tutti::parallel
