#pragma once

// Pipeline: performs one rank's part of a Schedule over the stages of a model that it has. A
// training without a pipeline is one stage and the schedule of one rank: there is no other way to
// do a step.
//
//   RecvF            into a buffer that waits for its F, while the rank computes
//   F                copies that into the slot, and leaves its result there
//   SendF            from the slot, where it stays until B
//   RecvB, B, SendB  the same way back; what B sends is copied out of the slot, which is then free
//
// Transfers run on a stream of their own, one group after the other, in the order of the schedule.

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include <tutti/device.h>
#include "parallel/data/loader.h"
#include "parallel/engine/stages.h"
#include "parallel/store/buffer_pool.h"

namespace tutti::parallel {

class Pipeline {
 public:
  /// The schedule of `microBatches` on the ranks along pp, checked. Throws InvalidArgument as
  /// buildSchedule() and cutIntoStages() do.
  Pipeline(ParallelContext& context, Model& model, const PipelineOptions& options, int microBatches,
           DType type);

  const Schedule& schedule() const { return schedule_; }
  /// Where each unit of the model is, for the store.
  std::vector<UnitPlace> places() const;
  /// Makes the communicator along pp. Collective over it.
  void connect() { group_ = context_.mesh.communicator({Axis::Pipeline}); }

  struct Step {
    std::function<Batch(int microBatch)> batch;  ///< this rank's, in the step
    double perToken = 1;                         ///< scale of the loss's gradient
  };
  /// Leaves gradients, and on the last stage's rank the loss, in the store. Collective over the
  /// ranks of the pipeline.
  void run(const Step& step);

  /// One batch through all stages: logits on the last one's rank, no data on the others; valid
  /// until the next call of anything. `before`: of what the batch, one sequence, goes on from, if
  /// it does (Model). Collective over the ranks of the pipeline.
  Tensor logits(const Tensor& tokenIds, KeyValues* before = nullptr);
  bool hasLastStage() const { return schedule_.rankOf(schedule_.stages() - 1) == rank_; }
  /// Gives back what logits() has needed.
  void forget();
  /// For what belongs to logits(), as long as these.
  Arena& memory() { return slots_[0].untilWeights; }

  /// Of all slots together.
  ArenaUse untilBackward() const;
  ArenaUse untilWeights() const;
  size_t usedBytes() const;
  /// What came from other stages and waits, and what goes to them.
  size_t betweenBytes() const { return between_.heldBytes(); }

 private:
  using Key = std::pair<int, int>;  // chunk, micro-batch
  struct Waiting {
    Tensor data;
    int group = -1;         // that receives it; -1: it is from here
    bool borrowed = false;  // by between_
  };

  UnitRange unitsOf(int chunk) const;
  bool first(int chunk) const { return schedule_.stage(rank_, chunk) == 0; }
  bool last(int chunk) const { return schedule_.stage(rank_, chunk) + 1 == schedule_.stages(); }
  bool nextIsHere(int chunk, int step) const;
  MeshMessage outputMessage(bool send, int peer, const Tensor& data) const;
  MeshMessage gradientMessage(bool send, int peer, const Tensor& data) const;
  MeshMessage messageOf(const Action& action, const Step& step);
  void transfer(std::span<const Action> group, const Step& step);
  void compute(const Action& action, const Step& step);
  void forward(const Action& action, const Step& step);
  void backward(const Action& action);
  void finish(const Action& action);
  Tensor copyInto(Arena& arena, const Tensor& tensor);
  Tensor ofTokens(Arena& arena, const Tensor& tokenIds);
  Tensor takeWaiting(std::map<Key, Waiting>& from, const Action& action, Arena& arena);
  Tensor outgoing(const Tensor& dx);
  void waitFor(int group, const char* name);

  ParallelContext& context_;
  Model& model_;
  const int rank_;
  const DType type_;
  Schedule schedule_;
  std::vector<UnitRange> stages_;
  MeshCommunicator* group_ = nullptr;
  BufferPool between_;
  std::deque<ActivationStash> slots_;
  std::vector<Tensor> results_;  // by slot: of forward
  std::map<Key, Waiting> inputs_, gradients_;
  Tensor last_;                     // what was computed last, to be sent
  std::array<Tensor, 2> outgoing_;  // gradients, in turn
  std::array<int, 2> outgoingGroup_{-1, -1};
  int outgoings_ = 0;
  std::vector<Event> groups_;  // of the step's transfers
  int nextGroup_ = 0;          // in the step
  Stream stream_;              // behind it what it may still use; ended first by the destructor
};

}  // namespace tutti::parallel
