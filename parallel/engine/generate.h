#pragma once

// Text from a trained byte-level model.

#include <string>

#include "parallel/engine/engine.h"

namespace tutti::parallel {

struct GenerateOptions {
  std::string prompt;  ///< what the text continues; a line end when empty
  int64_t bytes = 400;
  int64_t context = 128;     ///< of the model: it sees at most so many of the last bytes
  double temperature = 0.8;  ///< 0: always the likeliest byte
  uint64_t seed = 1;
};

/// Samples `bytes` bytes after the prompt, one after the other, and returns them without it.
/// Collective as Engine::logits(). Throws InvalidArgument when the temperature is below 0, or a
/// size is.
std::string generate(Engine& engine, const GenerateOptions& options);

}  // namespace tutti::parallel
