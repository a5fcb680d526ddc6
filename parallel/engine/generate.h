#pragma once

// What a trained model goes on with, token after token. The prompt goes through the model once;
// then each token does by itself, while the text fits the context, and attention takes the keys and
// values that are kept of those before (nn/key_values.h).

#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/engine/engine.h"

namespace tutti::parallel {

struct GenerateOptions {
  std::vector<int32_t> prompt;  ///< what is continued: at least one token
  int64_t tokens = 400;
  int64_t vocabulary = 0;    ///< only tokens below it are drawn; 0: all that the model has
  int64_t context = 128;     ///< of the model: it sees at most so many of the last tokens
  double temperature = 0.8;  ///< 0: always the likeliest token
  int64_t topK = 0;          ///< only so many of the likeliest are drawn from; 0: all
  uint64_t seed = 1;
  /// Asked before each token, if there is one, and the text ends when it says so; the same on all
  /// ranks that write together.
  std::function<bool()> stop = {};
};

/// The most tokens that the model sees at once: the context, or all that there will be.
int64_t seenAtOnce(const GenerateOptions& options);

/// Draws `tokens` tokens, one after the other, and returns them without the prompt. Collective as
/// Engine::logits(). Throws InvalidArgument when there is no prompt, the temperature is below 0, or
/// a size is.
std::vector<int32_t> generate(Engine& engine, const GenerateOptions& options);

}  // namespace tutti::parallel
