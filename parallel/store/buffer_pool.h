#pragma once

// BufferPool: buffers of a few sizes that are taken and given back in any order, so that memory is
// held for those alive at the same time only. After the first step nothing is allocated.

#include <string>
#include <vector>

#include "parallel/tensor/arena.h"

namespace tutti::parallel {

class BufferPool {
 public:
  explicit BufferPool(std::string name, Backing backing = {})
      : memory_(std::move(name), std::move(backing)) {}

  /// A flat tensor, zero when it is new, otherwise with whatever it was given back with. Throws
  /// OutOfMemory.
  Tensor take(DType type, int64_t elements);
  void give(const Tensor& tensor);

  size_t heldBytes() const { return memory_.usedBytes(); }

 private:
  struct Buffer {
    Tensor bytes;
    bool taken = false;
  };
  Arena memory_;
  std::vector<Buffer> buffers_;
};

}  // namespace tutti::parallel
