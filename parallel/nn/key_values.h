#pragma once

// KeyValues: what attention has kept of one sequence that is being written: the keys and values of
// all its tokens, of each block's heads that this rank has. A forward pass is then of the tokens
// that are new (nn/transformer.h, Attention::goOn).

#include <map>
#include <vector>

#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/store/parameter.h"
#include "parallel/tensor/arena.h"

namespace tutti::parallel {

class KeyValues {
 public:
  /// Room for so many tokens, where the tensors of the model's rank are.
  explicit KeyValues(int64_t capacity, const Backing& backing = {})
      : capacity_(capacity), memory_("keys and values", backing) {}

  int64_t capacity() const { return capacity_; }
  /// Tokens whose keys and values all blocks have.
  int64_t seen() const { return seen_; }
  /// Another sequence begins.
  void forget() { seen_ = 0; }
  /// So many new tokens have gone through all blocks.
  void advance(int64_t tokens) { seen_ += tokens; }

  /// Puts keys and values [1, new, columns] of a unit behind those that are here, and gives all:
  /// [1, seen + new, columns], valid until the next call. Throws Internal where there is no room.
  Tensor extend(Kernels& kernels, UnitId unit, const Tensor& keysValues);
  /// int32 [count]: where the next tokens are in the sequence, for kernels, valid until it is asked
  /// for others.
  Tensor positions(const DeviceMesh& mesh, int64_t count);

 private:
  const int64_t capacity_;
  int64_t seen_ = 0;
  Arena memory_;
  std::map<UnitId, Tensor> rows_;
  std::vector<int32_t> numbers_;
  Tensor positions_;  // these
  Tensor onDevice_;   // memory for them, on a GPU
};

}  // namespace tutti::parallel
