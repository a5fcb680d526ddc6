#pragma once

// ShardPolicy: which parts of the training state the data-parallel ranks share out instead of
// holding them all. The presets have the names of the literature:
//
// | preset        | optimizer | gradients | weights | collectives of a step with one round      |
// |---------------|-----------|-----------|---------|-------------------------------------------|
// | ddp           | all       | all       | all     | AllReduce of the gradient                 |
// | zero(1)       | 1/N       | all       | all     | ReduceScatter of it, AllGather of weights |
// | zero(2)       | 1/N       | 1/N       | all     | the same; full gradients are given back   |
// | fsdp, zero(3) | 1/N       | 1/N       | 1/N     | the same, weights for each pass           |
//
// A pass is a forward or a backward of a micro-batch; with Reshard::Never one AllGather serves all.
// N is the number of ranks along `shard`. What these share out is held as often as there are ranks
// along `replicate` (hybrid sharding, where there are several), whose gradients are added by one
// more AllReduce of a shard. Sources: Rajbhandari et al., "ZeRO"; Zhao et al., "PyTorch FSDP".

#include <cstddef>
#include <string>

#include "parallel/tensor/layout.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// When the gathered weights of a unit are given back; for policies that share out parameters.
struct Reshard {
  enum When {
    AfterForward,   ///< after each forward and each backward: least memory, gathered twice
    AfterBackward,  ///< after every `backwards` backward passes
    Never           ///< until the weights change: gathered once a step
  } when = AfterForward;
  int backwards = 1;
};

/// Element types. Weights are what modules compute with, made from the master copy that the
/// optimizer updates; gradients are what is added over micro-batches and ranks.
struct StoreTypes {
  DType weights = DType::Float32, master = DType::Float32, gradients = DType::Float32;

  StoreTypes() = default;
  StoreTypes(DType weightType, DType masterType, DType gradientType)
      : weights(weightType), master(masterType), gradients(gradientType) {}
  /// All of one type; with weights of 16 bits, float32 masters and gradients.
  StoreTypes(DType all);  // NOLINT: a type by itself is the usual case
};

/// Where parts of the state lie that are not computed with between steps.
enum class Place {
  Device,  ///< with the rest
  Host,    ///< in this host's memory, which on a host is the same
  File     ///< in files that nobody else sees (see Arena); not for a GPU
};
struct Offload {
  Place optimizer = Place::Device;   ///< its state, and masters where they are no weights
  Place gradients = Place::Device;   ///< added over the ranks
  Place parameters = Place::Device;  ///< of which units are gathered
  std::string folder;                ///< of files
  /// How much of each tensor a GPU has of it at once when it is updated; see offload.h.
  size_t partBytes = size_t{4} << 20;
};

struct ShardPolicy {
  bool optimizer = false, gradients = false, parameters = false;
  AxisSet shard = {Axis::Fsdp};
  AxisSet replicate = {Axis::Data};
  Reshard reshard = {};
  Offload offload = {};
  bool deterministic = false;  ///< the balanced tree over micro-batches; see gradient_tree.h
  size_t firstBucketBytes = size_t{256} << 10;
  size_t bucketBytes = size_t{1} << 20;

  static ShardPolicy ddp() { return {}; }
  /// Stage 0 is ddp(). Throws InvalidArgument unless the stage is 0 to 3.
  static ShardPolicy zero(int stage);
  static ShardPolicy fsdp() { return zero(3); }

  /// All ranks that compute gradients of the same weights.
  AxisSet data() const { return shard | replicate; }
  /// Throws InvalidArgument when gradients are shared out and the optimizer is not, or parameters
  /// and not gradients; when what is not shared out shall lie elsewhere, or in files without a
  /// folder; when parts of state are smaller than an element; when an axis is both shared out and
  /// replicated over; in deterministic mode when an axis of `replicate` lies inside one of `shard`:
  /// the tree over ranks would be another.
  void check() const;
};

}  // namespace tutti::parallel
