#pragma once

// Where a parameter of ours lies in the tensors of a Hugging Face folder. Llama's tensors are our
// parameters under other names. GPT-2's matrices are stored transposed ([inputs, outputs], Conv1D),
// and its queries, keys and values are one tensor, side by side:
//
//   ours     query [W, W]  key [W, W]  value [W, W]     rows are outputs
//   c_attn   [W, 3 W] = query^T | key^T | value^T

#include <map>
#include <string>
#include <vector>

#include "parallel/nn/model_options.h"
#include "parallel/tensor/box.h"

namespace tutti::parallel {

struct StoredPlace {
  std::string tensor;
  bool transposed = false;
  int64_t firstRow = 0;  ///< of the parameter, in what is stored (not transposed)
};

/// Where the parameter of this name lies. Throws Internal for one that the model does not have.
StoredPlace placeOf(const ModelOptions& options, const std::string& parameter);
/// What a box of the parameter is in the stored tensor.
Box storedBox(const StoredPlace& place, Box box);

/// What a rank holds of a parameter, and where that is in a stored tensor. A parameter of experts
/// is a tensor for each of them (Mixtral's), all others lie in one.
struct StoredPart {
  StoredPlace place;
  Box box;      ///< of the stored tensor
  Tensor held;  ///< elements of the parameter
};
/// Of `held`, which is `box` of the parameter; nothing of no elements.
std::vector<StoredPart> storedParts(const ModelOptions& options, const std::string& parameter,
                                    const Box& box, const Tensor& held);

/// The tensors of a folder, by name, as we write it: with "transformer." before GPT-2's.
std::map<std::string, Shape> storedTensors(const ModelOptions& options);
/// Whether a folder may have a tensor that no parameter needs: masks and tables that older versions
/// stored, and an output map that is the embedding itself.
bool isSpare(const ModelOptions& options, const std::string& tensor);

inline constexpr const char* kGptPrefix = "transformer.";

}  // namespace tutti::parallel
