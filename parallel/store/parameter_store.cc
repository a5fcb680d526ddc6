#include "parallel/store/parameter_store.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "parallel/store/gradient_tree.h"
#include "parallel/store/reached.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {

ParameterStore::ParameterStore(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy,
                               const StoreTypes& types)
    : mesh_(mesh),
      kernels_(kernels),
      policy_(policy),
      types_(types),
      optimizer_("optimizer", mesh.backing(policy.offload.folderOf(policy.offload.optimizer))) {
  policy.check();
  require(kernels.dry() == mesh.dry(), "of a mesh and its kernels ",
          mesh.dry() ? "the mesh" : "the kernels", " alone would run dry");
  const MeshCommunicator* group = mesh.communicator(policy.data());
  require(!policy.deterministic || group == nullptr || group->deterministic(),
          "a deterministic policy needs a communicator that is deterministic too");
}

// Collectives under way use the memory of both.
ParameterStore::~ParameterStore() { stream_ = Stream(); }

void ParameterStore::add(Parameter& parameter) {
  require(weights_ == nullptr, parameter.name, " was added after initialize()");
  const int previous = parameters_.empty() ? 0 : parameters_.back()->unit;
  require(parameter.unit >= previous && parameter.unit <= previous + 1, parameter.name,
          " is of unit ", parameter.unit, " after unit ", previous);
  parameter.id = static_cast<int>(parameters_.size());
  parameters_.push_back(&parameter);
}

int64_t ParameterStore::elementCount() const {
  int64_t total = 0;
  for (const Parameter* parameter : parameters_) total += parameter->global.count();
  return total;
}

void ParameterStore::initialize(uint64_t seed) {
  require(weights_ == nullptr && !parameters_.empty(), "initialize() comes once, after add()");
  cut_ = cutParameters(parameters_, mesh_, policy_);
  state_.resize(cut_.pieces.size());
  backwards_.resize(cut_.units.size());
  weights_ = std::make_unique<Weights>(mesh_, kernels_, policy_, types_, cut_, stream_, counters_);
  gradients_ = std::make_unique<Gradients>(mesh_, kernels_, policy_, types_.gradients, cut_,
                                           stream_, counters_);
  lossMemory_ = mesh_.allocate(policy_.data(), sizeof(double));
  weights_->fill(seed);
}

const Piece& ParameterStore::piece(const Parameter& parameter) const {
  ensure(parameter.id >= 0 && static_cast<size_t>(parameter.id) < cut_.pieces.size(),
         parameter.name, " is not in the store, or the store is not initialized");
  return cut_.pieces[static_cast<size_t>(parameter.id)];
}

void ParameterStore::acquire(UnitId unit, Phase phase) {
  ensure(weights_ != nullptr, "the store is not initialized");
  weights_->acquire(unit, phase);
}

void ParameterStore::release(UnitId unit, Phase phase) {
  weights_->release(unit, phase);
  if (phase == Phase::Backward) ++backwards_[static_cast<size_t>(unit)];
}

Tensor ParameterStore::weight(const Parameter& parameter) {
  return weights_->full(piece(parameter));
}

void ParameterStore::beginStep(int microBatches, int rounds) {
  ensure(gradients_ != nullptr, "the store is not initialized");
  gradients_->beginStep(microBatches, rounds);
  microBatches_ = microBatches;
  rounds_ = rounds;
  backwards_.assign(backwards_.size(), 0);
  lossLevels_.assign(static_cast<size_t>(policy_.deterministic ? treeLevels(microBatches) : 1),
                     0.0);
  lossAdded_.synchronize();
  loss_ = 0;
  lossRunning_ = false;
  gradientScale_ = 1;
  counters_ = {};
}

GradientSlot ParameterStore::gradient(const Parameter& parameter, int microBatch) {
  return gradients_->slot(piece(parameter), microBatch);
}

void ParameterStore::weightsDone(UnitId unit, int microBatch) {
  gradients_->unitDone(unit, microBatch, backwardContinues(unit));
}

/// Backward goes from the last unit to the first: the next one after `unit` has not ended.
bool ParameterStore::backwardContinues(UnitId unit) const {
  return unit > 0 && backwards_[static_cast<size_t>(unit) - 1] < microBatches_ * rounds_;
}

void ParameterStore::addLoss(double value, int microBatch) {
  ensure(microBatch < microBatches_ * rounds_, "a loss of micro-batch ", microBatch, " of ",
         microBatches_ * rounds_);
  const int inRound = microBatch % microBatches_;
  if (policy_.deterministic) {
    const TreePlace place = treePlace(inRound);
    auto at = lossLevels_.begin() + place.level;
    *at = value;
    for (int i = 0; i < place.merges; ++i, --at) *(at - 1) += *at;
  } else {
    lossLevels_[0] = inRound == 0 ? value : lossLevels_[0] + value;
  }
  if (inRound + 1 < microBatches_) return;
  closeLossRound();
  double* const total = lossMemory_.as<double>();
  if (!mesh_.dry()) *total = lossLevels_[0];
  lossRunning_ = true;
  if (MeshCommunicator* group = mesh_.communicator(policy_.data())) {
    group->allReduce(MutationPoint::LossSum,
                     {.send = total, .recv = total, .count = 1, .type = DType::Float64}, stream_);
    lossAdded_.record(stream_);
  }
}

/// Takes what the last round's AllReduce gave.
void ParameterStore::closeLossRound() {
  if (!lossRunning_) return;
  waitUntilReached(lossAdded_, stream_);
  if (!mesh_.dry()) loss_ += *lossMemory_.as<double>();
  lossRunning_ = false;
}

double ParameterStore::finishLoss() {
  gradients_->finish();
  closeLossRound();
  return loss_;
}

const std::vector<Range>& ParameterStore::box(const Parameter& parameter) const {
  return piece(parameter).box;
}

Tensor ParameterStore::finishedGradient(const Parameter& parameter) {
  gradients_->finish();
  return gradients_->sum(piece(parameter));
}

Tensor ParameterStore::master(const Parameter& parameter) {
  return weights_->master(piece(parameter));
}

std::span<Tensor> ParameterStore::state(const Parameter& parameter, const Optimizer& optimizer) {
  const Tensor weight = master(parameter);
  auto& state = state_[static_cast<size_t>(parameter.id)];
  while (static_cast<int>(state.size()) < optimizer.stateCount()) {
    state.push_back(optimizer_.allocate(weight.type, weight.shape));
    kernels_.fillZero(state.back());
  }
  return state;
}

void ParameterStore::restored(int64_t steps) {
  steps_ = steps;
  weights_->changed();
}

bool ParameterStore::isFirstReplica(const Parameter& parameter) const {
  return isFirst(piece(parameter), AxisSet::all());
}

/// Along those of `axes` that do not cut it.
bool ParameterStore::isFirst(const Piece& piece, AxisSet axes) const {
  const AxisSet cutting = piece.layout.axes();
  for (int i = 0; i < kAxisCount; ++i)
    if (const auto axis = static_cast<Axis>(i);
        axes.contains(axis) && !cutting.contains(axis) && mesh_.index(axis) > 0)
      return false;
  return true;
}

double ParameterStore::clip(double maxNorm) {
  gradients_->finish();
  ExactSum sum;
  const AxisSet cutting = cut_.axes();
  for (const Piece& piece : cut_.pieces)
    if (isFirst(piece, cutting)) kernels_.addSquares(gradients_->sum(piece), sum);
  if (MeshCommunicator* group = mesh_.communicator(cutting)) {
    auto limbs = sum.limbs();
    group->allReduce(
        MutationPoint::NormSum,
        {.send = limbs.data(), .recv = limbs.data(), .count = limbs.size(), .type = DType::Int64});
    sum = ExactSum::fromLimbs(limbs);
  }
  const double norm = std::sqrt(sum.value());
  gradientScale_ =
      factor(MutationPoint::ClippingScale, maxNorm > 0 && norm > maxNorm ? maxNorm / norm : 1);
  return norm;
}

void ParameterStore::step(Optimizer& optimizer, double learningRate) {
  gradients_->finish();
  optimizer.beginStep(++steps_, learningRate);
  for (const Piece& piece : cut_.pieces) {
    optimizer.update({.weight = weights_->master(piece),
                      .gradient = gradients_->sum(piece),
                      .state = state(*piece.parameter, optimizer),
                      .gradientScale = gradientScale_,
                      .decay = piece.parameter->decays()},
                     kernels_);
  }
  weights_->changed();
}

StoreMemory ParameterStore::memory() const {
  const size_t gathered = weights_->gatheredBytes(), lent = gradients_->lentBytes();
  return {.weights = weights_->keptBytes() + gathered,
          .masters = weights_->masterBytes(),
          .gradients = gradients_->keptBytes() + lent,
          .gradientShards = gradients_->shardBytes(),
          .optimizer = optimizer_.usedBytes(),
          .staging = weights_->stagingBytes() + gradients_->stagingBytes(),
          .gathered = gathered,
          .lent = lent};
}

void ParameterStore::checkReplicas() {
  if (mesh_.dry()) return;
  auto different = static_cast<int64_t>(cut_.pieces.size());  // the first that is; none
  const auto check = [&](const Piece& piece, AxisSet replicas, const Tensor& copy) {
    if (!equalOver(replicas, copy)) different = std::min<int64_t>(different, piece.parameter->id);
  };
  for (const Piece& piece : cut_.pieces)
    check(piece, AxisSet::all().without(piece.layout.axes()), weights_->master(piece));
  if (cut_.shards > 1 && !policy_.parameters) {
    for (size_t unit = 0; unit < cut_.units.size(); ++unit) {
      const auto id = static_cast<UnitId>(unit);
      weights_->acquire(id, Phase::Comparison);
      for (int i = cut_.units[unit].begin; i < cut_.units[unit].end; ++i) {
        const Piece& piece = cut_.pieces[static_cast<size_t>(i)];
        check(piece, policy_.shard, weights_->full(piece));
      }
      weights_->release(id, Phase::Comparison);
    }
    weights_->changed();  // a check changes nothing of what comes: they are gathered again
  }
  if (MeshCommunicator* all = mesh_.communicator(AxisSet::all()))
    all->allReduce(MutationPoint::ReplicaVerdict,
                   {&different, &different, 1, DType::Int64, ReduceOp::Min});
  if (different < static_cast<int64_t>(cut_.pieces.size()))
    fail(ErrorCode::Internal, "after step ", steps_, " the ranks' copies of ",
         parameters_[static_cast<size_t>(different)]->name, " are not equal");
}

/// On some of the ranks at least, unless all have the same. `copy` is contiguous: rows of the
/// store's own.
bool ParameterStore::equalOver(AxisSet replicas, const Tensor& copy) {
  MeshCommunicator* group = mesh_.communicator(replicas);
  if (group == nullptr) return true;
  const uint64_t mine = hashBytes(copy.data, copy.bytes());
  uint64_t most = 0;
  group->allReduce(MutationPoint::ReplicaHashes, {&mine, &most, 1, DType::UInt64, ReduceOp::Max});
  return mine == most;
}

}  // namespace tutti::parallel
