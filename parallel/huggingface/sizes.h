#pragma once

// The sizes that both a config.json and the headers of the weights beside it have. They are
// compared before anything is made of them: a model of the sizes of a few bytes of text may be of
// any size, and one of the headers' is no larger than their files.

#include <functional>
#include <string>
#include <vector>

#include "parallel/nn/model_options.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// The tensors of a folder.
struct StoredShapes {
  std::vector<std::string> names;
  /// Of a tensor by the name that storedTensors() has. Throws InvalidArgument when there is none.
  std::function<Shape(const std::string&)> shapeOf;
};

/// Throws InvalidArgument, beginning with `config`, the path, and with the key named, when a size
/// of the model is not that of the tensors. Takes memory in proportion to the names.
void requireSizesOf(const StoredShapes& stored, const std::string& config,
                    const ModelOptions& options);

/// The key of config.json that says how many layers there are.
const char* layersKey(const ModelOptions& options);

/// How many different numbers stand behind `prefix` in the names, as 2 of "h.0.x", "h.0.y",
/// "h.7.x".
int64_t countBehind(const std::string& prefix, const std::vector<std::string>& names);

}  // namespace tutti::parallel
