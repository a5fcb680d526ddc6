#pragma once

// ParameterStore: owns weights, gradients and optimizer state, decides where each lives, and issues
// every collective about them. This is its data-parallel (DDP) preset: everything is replicated,
// and gradients are added over the data axis.
//
// Units go into buckets in the reverse of their order of declaration, which is the order in which
// backward finishes them; the first bucket is small, so that communication starts early. As soon as
// the last micro-batch of a round has produced all gradients of a bucket, its AllReduce starts on
// the store's stream, while backward goes on.
//
//   backward   |block 3|block 2|block 1|block 0|embed|
//   stream             |AllReduce 0|AllReduce 1   |AllReduce 2|
//   host                                             |wait|clip|step|
//
// Cost: one AllReduce of the gradient's bytes per step, in buckets. Not thread safe.

#include <memory>
#include <string>
#include <vector>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/optim/optimizer.h"
#include "parallel/store/bucket.h"
#include "parallel/store/parameter.h"

namespace tutti::parallel {

/// Where a module writes a gradient: with beta 0 it overwrites, with beta 1 it adds.
struct GradientSlot {
  Tensor buffer;
  double beta = 0;
};

/// Which phase a unit's weights are needed for.
enum class Phase { Forward, Backward };

struct ShardPolicy {
  bool optimizer = false, gradients = false, parameters = false;  ///< DDP: none is sharded
  AxisSet replicate = {Axis::Data};
  bool deterministic = false;  ///< the balanced tree over micro-batches; see gradient_tree.h
  size_t firstBucketBytes = size_t{256} << 10;
  size_t bucketBytes = size_t{1} << 20;
};

/// What the store did in one step, for tests and reports.
struct StoreCounters {
  int allReduces = 0;
  size_t allReduceBytes = 0;
  int startedEarly = 0;   ///< AllReduces that began before the next unit's backward had ended
  int finishedEarly = 0;  ///< of all but the last, those that had ended when the last began
};

class ParameterStore {
 public:
  ParameterStore(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy, DType type);
  ~ParameterStore();
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Declares `parameter`, which must stay where it is; units come in ascending order. Sets its id.
  void add(Parameter& parameter);
  /// Ends the declarations: takes memory and gives every element its first value.
  void initialize(uint64_t seed);

  size_t parameterCount() const { return parameters_.size(); }
  const Parameter& parameter(size_t i) const { return *parameters_[i]; }
  int64_t elementCount() const;

  /// Makes a unit's weights usable, and says when they no longer need be. Replicated weights always
  /// are, so under DDP this only counts the units whose backward has ended.
  void acquire(UnitId unit, Phase phase);
  void release(UnitId unit, Phase phase);

  /// The weight as modules compute with it.
  Tensor weight(const Parameter& parameter);

  /// A step is one gradient round: `microBatches` on this rank.
  void beginStep(int microBatches);
  /// The slot for this micro-batch's contribution. A parameter used twice gets beta 1 the second
  /// time.
  GradientSlot gradient(const Parameter& parameter, int microBatch);
  /// All gradients of `unit` for this micro-batch are written. Ascending in `microBatch` per unit.
  void weightsDone(UnitId unit, int microBatch);

  /// Adds `value` over micro-batches and ranks in the gradients' order. The last micro-batch's call
  /// starts the AllReduce; finishLoss() waits for it and for the gradients, and returns the total.
  void addLoss(double value, int microBatch);
  double finishLoss();

  /// The gradient that is summed over micro-batches and ranks; waits for it.
  Tensor finishedGradient(const Parameter& parameter);
  /// The global norm of the gradient, before clipping, by an exact sum. step() will scale the
  /// gradient so that its norm is at most `maxNorm`; 0 or less: no clipping.
  double clip(double maxNorm);
  void step(Optimizer& optimizer, double learningRate);

  const StoreCounters& counters() const { return counters_; }

  /// Throws Internal, on all ranks, unless the weights of all ranks are equal to the bit.
  /// Collective.
  void checkReplicas();

 private:
  struct Entry;
  struct UnitRange;
  void planBuckets();
  size_t bucketBytes(const Bucket& bucket) const;
  Entry& entry(const Parameter& parameter);
  UnitRange& unitRange(UnitId unit);
  void startAllReduce(Bucket& bucket, UnitId completedBy);
  bool backwardContinues(UnitId unit) const;
  void finishGradients();

  DeviceMesh& mesh_;
  Kernels& kernels_;
  ShardPolicy policy_;
  DType type_;
  std::unique_ptr<Arena> state_;  // weights, optimizer state, levels of the gradient tree
  std::vector<Parameter*> parameters_;
  std::vector<Entry> entries_;    // by parameter id
  std::vector<UnitRange> units_;  // by unit id
  std::vector<Bucket> buckets_;   // in the order in which backward fills them
  std::vector<double> lossLevels_;
  Memory lossMemory_;
  int microBatches_ = 0;
  int bucketsStarted_ = 0;
  int64_t steps_ = 0;
  double gradientScale_ = 1;
  bool gradientsFinished_ = false;
  StoreCounters counters_;
  Stream stream_;  // last, so that it is drained while the memory above is still there
};

}  // namespace tutti::parallel
