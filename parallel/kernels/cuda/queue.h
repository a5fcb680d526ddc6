#pragma once

// The stream that kernels are enqueued on: launches, waits, what CUDA says of them, and the memory
// that calls need besides their operands.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include <tutti/device.h>

#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/sequence.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel::cuda {

/// Makes a GPU current for as long as it lives.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  const int device_;
};

/// Memory that is taken anew by each call, and grows. What was too small stays until the end: to
/// free it waits for all that runs, also for kernels that wait for what this thread will enqueue.
class Workspace {
 public:
  /// Of a device; of the host, where kernels reach it too.
  enum class Kind { Device, Pinned };
  Workspace(StreamRef stream, Kind kind) : stream_(stream), kind_(kind) {}
  /// What was there before is lost.
  void* room(size_t bytes);

 private:
  /// Where it begins: graphs know addresses, which small calls are not to move one after the other.
  static constexpr size_t kLeast = size_t{64} << 10;
  const StreamRef stream_;
  const Kind kind_;
  Memory memory_;
  std::vector<Memory> before_;
};

class Queue {
 public:
  explicit Queue(StreamRef stream);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Enqueues what the arguments are of (launches.h). Throws Cuda, naming the operation.
  template <class Arguments>
  void start(const char* operation, const Arguments& arguments, bool doubles = false) {
    sequence_.add(operation, arguments, doubles);
    if (!keeps_) startKept();
  }
  void fillZero(const char* operation, void* memory, size_t bytes);
  /// Any memory that the GPU addresses.
  void copy(const char* operation, void* to, const void* from, size_t bytes);

  /// What is started from now on is kept until keepNoMore(), or until somebody waits, and then
  /// started together (sequence.h).
  void keep();
  void keepNoMore();
  /// Forgets what is kept, and keeps no more.
  void abandon();
  int64_t graphLaunches() const { return graphs_.launches(); }

  /// Looks for a value outside of [lowest, end) when the stream comes to it, on a stream of its
  /// own, so that what is started behind it does not wait; finish() waits for that, not for the
  /// rest, and throws InvalidArgument if there is one. `what` goes before the value in that
  /// message, and `namedLowest` is the least that it says there is. Two at most. Of a call that
  /// CUDA refuses before finish() has looked nothing is left.
  void checkValues(const char* what, const Tensor& values, int64_t lowest, int64_t end,
                   int64_t namedLowest);
  void checkValues(const char* what, const Tensor& values, int64_t lowest, int64_t end) {
    checkValues(what, values, lowest, end, lowest);
  }
  /// Waits where something is to be looked at: values that were checked; or `always`, for all that
  /// was started.
  void finish(const char* operation, bool always = false);

  /// For one call: `count` numbers in memory of the GPU, or in memory that both address.
  template <class T>
  T* scratch(int64_t count) {
    return static_cast<T*>(room(scratch_, static_cast<size_t>(count) * sizeof(T)));
  }
  /// Numbers that are zero, and that whoever uses them leaves at zero.
  uint32_t* zeros() const { return zeros_.as<uint32_t>(); }
  static constexpr int64_t kZeros = 8192;
  template <class T>
  T* results(int64_t count) {
    return static_cast<T*>(room(results_, static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  struct Checked {
    const char* what;
    int64_t lowest, end;
  };
  static constexpr int kMostChecked = 2;
  void* room(Workspace& workspace, size_t bytes);
  void check(const char* operation, cudaError_t error);
  DeviceScope onDevice();
  void forgetChecked();
  void loadOfCuda();
  void makeAside();
  void lookAside(const char* what, const FindOutside& call);
  void wait(const char* operation);
  void startKept();

  const StreamRef stream_;
  const int device_;
  const bool poisons_;  ///< each call's scratch is NaN before it
  bool keeps_ = false;
  Sequence sequence_;
  Graphs graphs_;
  Workspace scratch_, results_;
  Memory zeros_;
  Memory found_;  ///< FirstOutside[kMostChecked]
  Checked checked_[kMostChecked] = {};
  int checkedCount_ = 0;
  /// Where values are checked, unless they are kept.
  struct Aside {
    cudaStream_t stream = nullptr;
    cudaEvent_t before = nullptr;  ///< behind what the values may come from
    cudaEvent_t after = nullptr;   ///< behind the last values that were checked
    ~Aside();
  } aside_;
  bool isLooking_ = false;  ///< aside_.after is recorded: these were not kept
};

}  // namespace tutti::parallel::cuda
