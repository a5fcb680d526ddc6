#pragma once

// ParameterStore: owns weights, gradients and optimizer state, decides where each lives, and issues
// every collective about them. Which of them are shared out is its ShardPolicy's to say; DDP,
// ZeRO-1, 2, 3, FSDP and hybrid sharding are policies. Modules see none of it: they acquire a unit,
// compute with its weights, and write its gradients.
//
// Not thread safe. What it allocates and the collectives that it starts come in the same order on
// all ranks, as long as these acquire and release units in the same order.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/optim/optimizer.h"
#include "parallel/store/gradients.h"
#include "parallel/store/offload.h"
#include "parallel/store/parameter.h"
#include "parallel/store/weights.h"

namespace tutti::parallel {

/// Bytes on this rank, by what they are for. A rank holds the most that it needed so far.
struct StoreMemory {
  size_t weights = 0;         ///< what modules compute with
  size_t masters = 0;         ///< where they are other than those
  size_t gradients = 0;       ///< as modules write them, and partial sums of the tree
  size_t gradientShards = 0;  ///< added over the ranks; all gradients where they are not shared out
  size_t optimizer = 0;
  size_t staging = 0;   ///< what collectives send and receive
  size_t gathered = 0;  ///< of `weights`, those that are there while they are computed with
  size_t borrowed =
      0;  ///< of `gradients`, those that are there until they are added over the ranks

  size_t total() const {
    return weights + masters + gradients + gradientShards + optimizer + staging;
  }
  /// What lasts from step to step, and is all that the literature counts.
  size_t state() const { return total() - staging - gathered - borrowed; }
  bool operator==(const StoreMemory&) const = default;
};

/// Which of the ranks along pp has a unit, and with which of its chunks it is computed.
struct UnitPlace {
  int rank = 0, chunk = 0;
  bool operator==(const UnitPlace&) const = default;
};

class ParameterStore {
 public:
  /// Throws InvalidArgument as ShardPolicy::check(), when a deterministic policy meets a
  /// communicator that is not deterministic, and when only one of mesh and kernels is dry.
  ParameterStore(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy,
                 const StoreTypes& types);
  ~ParameterStore();
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Where units are; without it all are here. Before add(). Throws InvalidArgument when one is on
  /// a rank that there is not.
  void place(std::vector<UnitPlace> units);
  UnitPlace placeOf(UnitId unit) const;
  bool here(UnitId unit) const { return placeOf(unit).rank == mesh_.index(Axis::Pipeline); }

  /// Declares `parameter`, which must stay where it is; units come in ascending order. Sets its id.
  /// All ranks declare all parameters, those of other places too.
  void add(Parameter& parameter);
  /// Ends the declarations: takes memory and gives every element its first value. Collective.
  void initialize(uint64_t seed);

  const ShardPolicy& policy() const { return policy_; }
  const MeshShape& mesh() const { return mesh_.shape(); }
  size_t parameterCount() const { return parameters_.size(); }
  const Parameter& parameter(size_t i) const { return *parameters_[i]; }  ///< those that are here
  /// All that were declared.
  std::span<Parameter* const> declared() const { return declared_; }
  /// Of the whole model, copies of tied parameters not counted.
  int64_t elementCount() const;

  /// Makes a unit's weights usable, and says when they no longer need be. Collective over the
  /// sharding axes where the policy shares out anything.
  void acquire(UnitId unit, Phase phase);
  void release(UnitId unit, Phase phase);

  /// The weight as modules compute with it, while its unit is acquired.
  Tensor weight(const Parameter& parameter);

  /// A step is `rounds` gradient rounds of `microBatches` each, on this rank. Gradients are added
  /// over the ranks once a round.
  void beginStep(int microBatches, int rounds = 1);
  /// The slot for this micro-batch's contribution; they are numbered through all rounds. A
  /// parameter used twice gets beta 1 the second time.
  GradientSlot gradient(const Parameter& parameter, int microBatch);
  /// All gradients of `unit` for this micro-batch are written. Ascending in `microBatch` per unit.
  void weightsDone(UnitId unit, int microBatch);

  /// Adds `value` over micro-batches and ranks in the gradients' order. The last micro-batch's call
  /// of a round starts an AllReduce; finishLoss() waits for the last and for the gradients, and
  /// returns the total.
  void addLoss(double value, int microBatch);
  double finishLoss();

  /// Which part of the parameter this rank stores. It is its own to update and to save.
  const Box& box(const Parameter& parameter) const;
  /// That part of the gradient, summed over micro-batches, rounds and ranks; waits for it.
  Tensor finishedGradient(const Parameter& parameter);
  /// That part of the weight that the optimizer updates.
  Tensor master(const Parameter& parameter);

  /// What the optimizer keeps of that part. Zero before the first step, made here if need be.
  std::span<Tensor> state(const Parameter& parameter, const Optimizer& optimizer);
  /// Whether this rank is the first of those that store the same part: who writes it to a file.
  bool isFirstReplica(const Parameter& parameter) const;
  int64_t steps() const { return steps_; }
  /// Masters and state were given other values, those after so many steps.
  void restored(int64_t steps);

  /// The global norm of the gradient, before clipping, by an exact sum. step() will scale the
  /// gradient so that its norm is at most `maxNorm`; 0 or less: no clipping. The gradient was
  /// multiplied by `lossScale`, if there is one, and is divided by it first. Collective.
  double clip(double maxNorm, std::optional<double> lossScale = {});
  /// With a loss scale: an element of the gradient that was clipped is not finite, on this rank or
  /// another one. All ranks are told the same.
  bool overflowed() const { return overflowed_; }
  void step(Optimizer& optimizer, double learningRate);

  const StoreCounters& counters() const { return counters_; }
  StoreMemory memory() const;

  /// Throws Internal, on all ranks, unless what several ranks hold of the weights is equal to the
  /// bit: masters, and where they are kept, weights that are gathered. Collective; between steps,
  /// while no unit is acquired. A dry run has nothing to compare.
  void checkReplicas();

 private:
  void awaitOthers();
  const Piece& piece(const Parameter& parameter) const;
  int unitIndex(UnitId unit) const;
  bool owns(const Parameter& parameter) const;
  std::vector<Tie> ties() const;
  AxisSet cuttingAxes() const;
  bool backwardContinues(int unit) const;
  void closeLossRound();
  bool equalOver(AxisSet replicas, uint64_t mine);
  bool tiedAreEqual(const Parameter& copy);
  bool isFirst(const Piece& piece, AxisSet axes) const;
  std::vector<Tensor> sumsInNorm(AxisSet cutting, bool areIn) const;
  bool anyOverflow(double norm, AxisSet cutting);
  uint64_t hashOf(const Tensor& rows) const;
  Stream& lossStream() { return ofHost_ ? *ofHost_ : stream_; }

  DeviceMesh& mesh_;
  Kernels& kernels_;
  const ShardPolicy policy_;
  const StoreTypes types_;
  std::vector<UnitPlace> places_;                  // by unit; none: all are here
  std::vector<Parameter*> declared_, parameters_;  // all, and those that are here
  std::vector<UnitId> units_;                      // that are here, by their index in cut_
  Cut cut_;
  std::vector<std::vector<Tensor>> state_;  // by parameter id: of the optimizer
  Arena optimizer_;
  std::vector<int> backwards_;  // by unit: micro-batches whose backward has ended
  std::vector<double> lossLevels_;
  Memory lossMemory_;             // of the round, on all ranks; the host's
  std::optional<Stream> ofHost_;  // of the loss, where stream_ is a GPU's
  Event lossAdded_;
  double loss_ = 0;  // of the rounds before
  bool lossRunning_ = false;
  int microBatches_ = 0, rounds_ = 0;
  int64_t steps_ = 0;
  double gradientScale_ = 1;
  bool overflowed_ = false;
  StoreCounters counters_;
  Stream stream_;  // behind it what it may still use; ended first by the destructor
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Gradients> gradients_;
  std::unique_ptr<OffloadedUpdates> offloaded_;  // null where nothing lies in page-locked memory
};

}  // namespace tutti::parallel
