#pragma once

// What a policy puts elsewhere (see Offload). On a host that is an arena of files, or of memory
// like any other. For a GPU it is page-locked memory of the host, and what is there is used in
// three ways:
//
// - Kernels address it where it lies, if they read it once: the norm of gradients, sums over
//   rounds and ties, weights that are made from masters of another type.
// - Copies on the store's stream, between its collectives: weights of the masters' type on their
//   way into an AllGather, which is ahead of the computation (weights.h), and gradients out of a
//   ReduceScatter (gradients.h).
// - OffloadedUpdates, for the optimizer, which reads and writes all of it.

#include <array>
#include <vector>

#include <tutti/device.h>
#include "parallel/mesh/device_mesh.h"
#include "parallel/optim/optimizer.h"
#include "parallel/store/shard_policy.h"

namespace tutti::parallel {

/// What an arena for that place is made of.
Backing backingAt(Place place, const Offload& offload, const DeviceMesh& mesh);

/// Updates of what lies in page-locked memory, part by part, on two streams beside that of the
/// kernels:
///
///   in       |part 0|part 1|part 2|
///   kernels         |part 0|part 1|part 2|
///   out                    |part 0|part 1|part 2|
///
/// A part has so many bytes of each tensor; there is memory of the GPU for two of them, so a part
/// comes in when the one before the last has gone out. An update has to be element by element, as
/// all of optimizer.h are; then the bits do not depend on the parts.
class OffloadedUpdates {
 public:
  /// What of UpdateArgs lies in page-locked memory.
  struct Away {
    bool weight = false, gradient = false, state = false;
  };
  /// For a mesh on a GPU, which must outlive it.
  OffloadedUpdates(DeviceMesh& mesh, Away away, size_t partBytes);

  /// The updates of a step come behind what is enqueued on the mesh's stream.
  void begin();
  void update(const UpdateArgs& args, double gradientScale, Optimizer& optimizer, Kernels& kernels);
  /// What is enqueued there from now on comes behind them.
  void end();

  size_t bytes() const { return memory_.usedBytes(); }  ///< of the GPU

 private:
  struct Operand {
    Tensor tensor;  // flat
    bool away = false, changes = false;
  };
  struct Slot {
    explicit Slot(Device device) : there(device), computed(device), free(device) {}
    std::vector<Tensor> parts;  // by operand; none of those that are not away
    Event there, computed, free;
  };

  const Tensor& part(Slot& slot, size_t operand, DType type);

  DeviceMesh& mesh_;
  const Away away_;
  const size_t partBytes_;
  Arena memory_;
  std::array<Slot, 2> slots_;
  int64_t partsBegun_ = 0;
  Event enqueued_;
  Stream in_, out_;  // behind what they use; ended first
};

}  // namespace tutti::parallel
