#pragma once

// Engine: one rank's training loop over a model. A step is one gradient round or several: the
// global batch is cut into `rounds` times `reductionGroups` micro-batches; of each round's, every
// data-parallel rank takes consecutive ones, so that the shape of the computation does not depend
// on the number of ranks.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "parallel/checkpoint/checkpoint_writer.h"
#include "parallel/data/loader.h"
#include "parallel/engine/background_save.h"
#include "parallel/engine/pipeline.h"
#include "parallel/optim/loss_scale.h"

namespace tutti::parallel {

struct EngineOptions {
  ShardPolicy policy;
  StoreTypes types = {};
  int reductionGroups = 0;  ///< micro-batches of a round; 0: chosen by reductionGroupsFor()
  int rounds = 1;           ///< of a step: how often gradients are added over the ranks
  double clipNorm = 1;      ///< 0: no clipping
  uint64_t seed = 1;
  std::optional<LossScaling> lossScaling = {};  ///< of the gradients of float16
  PipelineOptions pipeline = {};                ///< how the ranks along pp share the model out
};

/// Micro-batches that deterministic mode takes on its own: up to so many ranks the same number, and
/// so the same bits.
inline constexpr int kDeterministicGroups = 8;

/// The least multiple of `ranks` that is at least 4, or kDeterministicGroups when `deterministic`.
/// Throws InvalidArgument when deterministic mode cannot have a balanced tree, which needs powers
/// of two.
int reductionGroupsFor(int ranks, bool deterministic);
/// `groups`, or the choice above when it is 0. Throws InvalidArgument when `ranks` do not divide
/// it, or deterministic mode cannot add up so many.
int checkReductionGroups(int groups, int ranks, bool deterministic);

/// What the routers of a step did, all blocks' together; of models without experts, nothing.
struct RouterReport {
  double balance = 0, z = 0;  ///< their losses, summed over blocks: means over sequences
  double choices = 0;         ///< of tokens, of experts
  /// Those that experts got and were not dropped: of the first block with experts, of the second.
  std::vector<double> loads;

  double dropped() const;  ///< choices
  bool operator==(const RouterReport&) const = default;
};

struct StepReport {
  double loss = 0;          ///< mean over `tokens`, nats, before the update; the same on all ranks
  double gradientNorm = 0;  ///< before clipping; not finite of a step that was skipped
  int64_t tokens = 0;       ///< labels of the global batch that count
  Waited waited;            ///< of this rank's computing thread, for other ranks
  double lossScale = 1;     ///< that the gradients were computed with
  bool skipped = false;     ///< they overflowed: weights and state are as they were
  bool lost = false;        ///< and the loss scale is at its least: no later step will be better
  StoreCounters counters;
  CollectiveCounters tensor;  ///< of the modules' collectives among the ranks of tensor parallelism
  CollectiveCounters experts;  ///< and among those of experts
  RouterReport router;
};

/// Bytes on this rank: what the store holds, and what the arenas of the micro-batches that are
/// under way at the same time needed so far.
struct TrainingMemory {
  StoreMemory store;
  ArenaUse untilBackward, untilWeights, scratch;
  size_t between = 0;  ///< what other stages sent and is not used yet, and what goes to them
  size_t saving = 0;   ///< what saveInBackground() has copied

  size_t total() const {
    return store.total() + untilBackward.peak + untilWeights.peak + scratch.peak + between + saving;
  }
  bool operator==(const TrainingMemory&) const = default;
};

class Engine {
 public:
  /// `model` must outlive the engine. Not collective, except that the mesh's memory and its
  /// communicators may be. Throws InvalidArgument as ParameterStore's and Pipeline's constructors
  /// do, and when the model's heads do not suit the mesh.
  Engine(DeviceMesh& mesh, Kernels& kernels, Model& model, const EngineOptions& options);

  /// Gradients of global batch number `step`, left in the store, and its mean loss: both over all
  /// labels of the batch that count, however these are spread over ranks and micro-batches, of
  /// which some may have none. Collective. Throws InvalidArgument when the batch has fewer
  /// sequences than there are micro-batches, or no label that counts. With a loss scale the
  /// gradients, not the loss, are multiplied by it.
  double gradients(Loader& loader, int64_t step);
  /// What follows the gradients: they are clipped, and the weights updated, unless with a loss
  /// scale a gradient of any rank is not finite; then they stay as they are, on all ranks.
  /// Collective; fills what is known by then.
  StepReport update(Optimizer& optimizer, double learningRate);
  /// A whole step: gradients and update. Collective.
  StepReport step(Loader& loader, int64_t step, Optimizer& optimizer, double learningRate);
  /// Mean loss over the labels of `windows` that count; the ranks share the windows out in batches
  /// of `sequences`. The batches' losses are added exactly, so the result does not depend on the
  /// number of ranks. Collective. Throws InvalidArgument when no label counts.
  double evaluate(Windows& windows, int64_t sequences);
  /// The same, unless `stop` says so, which is asked before each batch, with how many of the
  /// windows are done, and says the same on all ranks: then nothing.
  std::optional<double> evaluate(Windows& windows, int64_t sequences,
                                 const std::function<bool(int64_t)>& stop);
  /// Logits [batch, context, vocabulary], of the whole vocabulary, contiguous, valid until the next
  /// call of anything. Collective over the ranks that share out or cut weights, share out positions
  /// or have stages.
  Tensor logits(const Tensor& tokenIds);
  /// Logits [1, 1, vocabulary], in float64, behind the last of token ids [1, new], which come
  /// behind those that `before` has seen; it has seen them then too, if this engine goesOn().
  /// Otherwise there may be none before. Valid and collective as logits().
  Tensor nextLogits(const Tensor& tokenIds, KeyValues& before);
  /// Whether keys and values are kept: the model can go on from them, and this rank has all
  /// positions.
  bool goesOn() const { return model_.goesOn() && !context_.sequences.cuts(); }
  /// Gives back what logits() has needed.
  void forget() { pipeline_.forget(); }

  /// Saves weights and the optimizer's state below `root`, as the checkpoint of `step`, the first
  /// step that is still to come: each part by the first of the ranks that hold it. `keep` newest
  /// stay; 0: all. `metadata` are what load() is to ask for. Collective; when one rank cannot, all
  /// throw what it threw, and nothing is lost of the checkpoints before.
  void save(const std::filesystem::path& root, int64_t step, const Optimizer& optimizer,
            int keep = 0, const Metadata& metadata = {});
  /// The same, of a copy, while the training goes on: the copy is all that it waits for, and for
  /// the save before. Between them the ranks hold all masters and state of the optimizer once more.
  /// What the disk refuses is thrown by the next save, load() or awaitSave(), on all ranks.
  void saveInBackground(const std::filesystem::path& root, int64_t step, const Optimizer& optimizer,
                        int keep = 0, const Metadata& metadata = {});
  /// Waits until the last save is complete; throws what save() would have. Collective.
  void awaitSave() { background_.await(); }
  /// Takes weights and state from a checkpoint, whatever the policy, the mesh and the number of
  /// ranks it was saved under, and returns the step to go on with. In deterministic mode what
  /// follows is then what would have followed. Collective; throws InvalidArgument on all ranks,
  /// naming file and tensor, when it is not of this model and optimizer, was not saved with this
  /// metadata, or is damaged; weights and state are then undefined.
  int64_t load(const std::filesystem::path& folder, const Optimizer& optimizer,
               const Metadata& metadata = {});
  /// load() of the newest checkpoint below `root` whose files are sound; nothing when there is no
  /// checkpoint at all. Newer ones, which are damaged, are set aside then: renamed, not removed, so
  /// that the next save may have their step. `warn` is told of each, on rank 0. Throws, and renames
  /// nothing, when none is sound, and when the first that is was not saved by such a training.
  std::optional<int64_t> loadNewest(const std::filesystem::path& root, const Optimizer& optimizer,
                                    const Metadata& metadata,
                                    const std::function<void(const std::string&)>& warn);

  /// Takes the weights alone, as load() does, for a model that is to be used and not trained.
  void loadWeights(const std::filesystem::path& folder);

  TrainingMemory memory() const;
  ParameterStore& store() { return store_; }
  const Pipeline& pipeline() const { return pipeline_; }
  Arena& scratch() { return scratch_; }
  const DeviceMesh& mesh() const { return mesh_; }
  int reductionGroups() const { return groups_; }

 private:
  double wholeLoss(double part);
  Tensor wholeLogits(const Tensor& part, const Shape& tokens);
  double lossScale() const;
  void beginRouters(int64_t sequences);
  RouterReport wholeTally();
  std::vector<TensorBox> savedPieces(const Optimizer& optimizer);
  /// load(), but returns what is wrong with the files.
  std::exception_ptr tryLoad(const std::filesystem::path& folder, const Optimizer& optimizer,
                             const Metadata& metadata, int64_t& step);

  DeviceMesh& mesh_;
  Kernels& kernels_;
  Model& model_;
  EngineOptions options_;
  std::optional<LossScale> scale_;
  int64_t sequences_ = 0;  // of the step's batch
  const AxisSet batch_;    // axes of the ranks that see other parts of the batch
  int groups_;
  Arena scratch_;
  ParameterStore store_;
  ParallelContext context_;
  Pipeline pipeline_;
  BackgroundSave background_;
};

}  // namespace tutti::parallel
