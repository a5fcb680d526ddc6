#pragma once

// Many tensors for one launch, in the parameters of the kernel: nothing is copied to the GPU ahead
// of it, and a graph keeps them. A block has neighbouring elements of one tensor.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// Bytes of parameters that a kernel may have on any GPU, and of these what is left to others.
inline constexpr size_t kMostParameterBytes = 4096, kOtherParameterBytes = 128;

/// What is computed element by element of so many operands, of the same formats in all entries.
template <int kOperands>
struct TensorTable {
  struct Entry {
    void* operands[kOperands];
    int64_t count;  ///< elements of each, more than 0
    uint32_t firstBlock;
    float weightDecay;  ///< of what is updated
  };
  static constexpr uint32_t kMost =
      (kMostParameterBytes - kOtherParameterBytes) / static_cast<uint32_t>(sizeof(Entry));

  ElementFormat formats[kOperands];
  uint32_t count;   ///< entries
  uint32_t blocks;  ///< of all of them
  Entry entries[kMost];
};

/// Puts tensors into tables, in their order, and gives each table to start(table) when it is full,
/// when the next tensors are of other formats, and at the end. Tensors without elements are in
/// none.
template <int kOperands, class Start>
class Tables {
 public:
  using Operands = std::array<Elements, kOperands>;
  Tables(int64_t elementsOfBlock, Start start) : elementsOfBlock_(elementsOfBlock), start_(start) {}

  void add(const Operands& operands, int64_t count, double weightDecay = 0) {
    if (count == 0) return;
    const int64_t blocks = (count + elementsOfBlock_ - 1) / elementsOfBlock_;
    if (!hasRoom(operands, blocks)) finish();
    auto& entry = table_.entries[table_.count++];
    for (size_t i = 0; i < kOperands; ++i) {
      entry.operands[i] = operands[i].data;
      table_.formats[i] = operands[i].format;
    }
    entry.count = count;
    entry.firstBlock = table_.blocks;
    entry.weightDecay = static_cast<float>(weightDecay);
    table_.blocks += static_cast<uint32_t>(blocks);
  }
  void finish() {
    if (table_.count > 0) start_(table_);
    table_ = {};
  }

 private:
  bool hasRoom(const Operands& operands, int64_t blocks) const {
    if (table_.count == 0) return true;
    for (size_t i = 0; i < kOperands; ++i)
      if (table_.formats[i] != operands[i].format) return false;
    return table_.count < table_.kMost &&
           table_.blocks + blocks <= std::numeric_limits<int32_t>::max();
  }

  const int64_t elementsOfBlock_;
  const Start start_;
  TensorTable<kOperands> table_{};
};

template <int kOperands, class Start>
Tables<kOperands, Start> tablesOf(int64_t elementsOfBlock, const Start& start) {
  return {elementsOfBlock, start};
}

}  // namespace tutti::parallel::cuda
