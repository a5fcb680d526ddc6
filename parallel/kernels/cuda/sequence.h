#pragma once

// Launches that are kept for later, and the graphs that stand for those that come again: a training
// step asks for the same kernels with the same operands as the step before, and a graph of them
// takes the host one call and the GPU no gaps.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace tutti::parallel::cuda {

/// Arguments that enqueue() takes, in their order.
class Sequence {
 public:
  /// Of a launch. `operation` is kept by its address.
  template <class Arguments>
  void add(const char* operation, const Arguments& arguments, bool doubles = false) {
    static_assert(std::is_trivially_copyable_v<Arguments> && alignof(Arguments) <= kAlignment);
    static_assert(std::is_copy_assignable_v<Arguments>, "what a reference names may be gone");
    Arguments known = arguments;
    __builtin_clear_padding(&known);  // equal ones are equal bytes
    const size_t begin = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.resize(begin + sizeof known);
    std::memcpy(bytes_.data() + begin, &known, sizeof known);
    items_.push_back({&enqueueOne<Arguments>, operation, begin, doubles});
  }
  size_t size() const { return items_.size(); }
  void clear();
  size_t hash() const;
  bool operator==(const Sequence&) const = default;

  /// Enqueues all, or until CUDA refuses one, whose operation is then `failed`.
  cudaError_t start(cudaStream_t stream, const char*& failed) const;

 private:
  static constexpr size_t kAlignment = 16;
  using Enqueue = cudaError_t (*)(const void* arguments, bool doubles, cudaStream_t stream);
  struct Item {
    Enqueue enqueue;
    const char* operation;
    size_t begin;  ///< of its arguments, in bytes_
    bool doubles;
    bool operator==(const Item&) const = default;
  };

  template <class Arguments>
  static cudaError_t enqueueOne(const void* bytes, bool doubles, cudaStream_t stream) {
    const Arguments& arguments = *std::launder(static_cast<const Arguments*>(bytes));
    if constexpr (requires { enqueue(arguments, doubles, stream); })
      return enqueue(arguments, doubles, stream);
    else
      return enqueue(arguments, stream);
  }

  std::vector<std::byte> bytes_;
  std::vector<Item> items_;
};

/// Memory that is filled or copied, as launches.h has kernels.
struct FillBytes {
  void* memory;
  size_t bytes;
  int value;  ///< of each byte
};
cudaError_t enqueue(const FillBytes& x, cudaStream_t stream);
struct CopyBytes {
  void* to;
  const void* from;
  size_t bytes;
};
cudaError_t enqueue(const CopyBytes& x, cudaStream_t stream);

/// Enqueues sequences. One that comes for the second time becomes a graph, which is launched in its
/// place from then on; but not while others of this process do so on the same device. To make a
/// graph waits for the device, on an H200 with driver 580, and so for a collective of another rank
/// there that waits for this one.
class Graphs {
 public:
  /// Sequences that are remembered. Where there are more, those without a graph are forgotten, and
  /// beyond so many graphs there are no new ones.
  static constexpr size_t kMost = 4096;

  /// `wanted`: otherwise all is enqueued one by one.
  Graphs(bool wanted, int device);
  /// What was launched must have ended.
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  /// On the current device. What CUDA refuses is returned, and its operation `failed`.
  cudaError_t start(const Sequence& sequence, cudaStream_t stream, const char*& failed);
  /// Graphs that were launched so far.
  int64_t launches() const { return launches_; }

 private:
  struct Known {
    Sequence sequence;
    cudaGraphExec_t graph = nullptr;
  };
  Known* find(const Sequence& sequence);
  void remember(const Sequence& sequence);
  cudaError_t makeGraph(Known& known, const char*& failed);

  const bool wanted_;
  std::atomic<int>& onDevice_;  ///< such objects of this process
  cudaStream_t capturing_ = nullptr;
  std::unordered_multimap<size_t, Known> known_;  // by hash
  int64_t launches_ = 0;
};

}  // namespace tutti::parallel::cuda
