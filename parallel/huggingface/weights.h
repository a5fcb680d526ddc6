#pragma once

// The weights of a Hugging Face folder: model.safetensors, or several files that
// model.safetensors.index.json lists. Read box by box, in any of the types that such files have.

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "parallel/checkpoint/safetensors_boxes.h"
#include "parallel/huggingface/names.h"

namespace tutti::parallel {

inline constexpr const char* kWeightsName = "model.safetensors";

/// Of one rank; not thread safe.
class WeightFolder {
 public:
  /// Reads the headers, and takes memory in proportion to them whatever the options are. Throws
  /// InvalidArgument, naming file and member, when the folder is not as its index says, or its
  /// tensors are not those of the model, of their shapes and in a type of floating-point numbers.
  WeightFolder(const std::filesystem::path& folder, const ModelOptions& options);

  /// What a box of the parameter is in the folder, as `to`'s type has it: float64, float32 or
  /// bfloat16. `to` is contiguous and has the extents of the box.
  void read(const std::string& parameter, const Box& box, const Tensor& to);
  uint64_t bytesRead() const;  ///< of tensors' data, for reports

 private:
  void addFile(const std::filesystem::path& path);
  void readIndex(const std::filesystem::path& index);
  void requireSizes() const;
  void requireTensors() const;
  const SafetensorsEntry& entry(const std::string& tensor) const;

  const std::filesystem::path folder_;
  const ModelOptions options_;
  std::map<std::filesystem::path, SafetensorsReader> files_;
  std::map<std::string, SafetensorsReader*> byTensor_;
  bool prefixed_ = true;  ///< GPT-2's names begin with kGptPrefix
};

/// Elements of `from` in the type of `to`; rounded to the nearest. Transposed where `transposed`:
/// then both are matrices.
void convert(const Tensor& from, const Tensor& to, bool transposed);

}  // namespace tutti::parallel
