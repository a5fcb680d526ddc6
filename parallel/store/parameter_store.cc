#include "parallel/store/parameter_store.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "parallel/store/gradient_tree.h"
#include "parallel/store/reached.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

// State has a tensor for each parameter: larger ones have blocks of their own, whose ends nobody
// leaves unused.
constexpr size_t kStateBlockBytes = size_t{256} << 10;

}  // namespace

ParameterStore::ParameterStore(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy,
                               const StoreTypes& types)
    : mesh_(mesh),
      kernels_(kernels),
      policy_(policy),
      types_(types),
      optimizer_("optimizer", backingAt(policy.offload.optimizer, policy.offload, mesh),
                 kStateBlockBytes),
      stream_(mesh.device()) {
  if (mesh.stream()) ofHost_.emplace();
  policy.check();
  require(kernels.dry() == mesh.dry(), "of a mesh and its kernels ",
          mesh.dry() ? "the mesh" : "the kernels", " alone would run dry");
  require(kernels.device() == mesh.device(), "kernels of ", toString(kernels.device()),
          " compute nothing on a mesh of ", toString(mesh.device()));
  const MeshCommunicator* group = mesh.communicator(policy.data());
  require(!policy.deterministic || group == nullptr || group->deterministic(),
          "a deterministic policy needs a communicator that is deterministic too");
}

// Collectives under way use the memory of both, and so does what a GPU still computes.
ParameterStore::~ParameterStore() {
  ofHost_.reset();
  stream_ = Stream();
  try {
    mesh_.finish();
  } catch (const std::exception&) {  // whoever works there next is told
  }
}

void ParameterStore::place(std::vector<UnitPlace> units) {
  require(declared_.empty(), "units were placed after a parameter was added");
  for (const UnitPlace& unit : units)
    require(unit.rank >= 0 && unit.rank < mesh_.extent(Axis::Pipeline), "a unit is on rank ",
            unit.rank, " of a pipeline of ", mesh_.extent(Axis::Pipeline));
  places_ = std::move(units);
}

UnitPlace ParameterStore::placeOf(UnitId unit) const {
  if (places_.empty()) return {.rank = mesh_.index(Axis::Pipeline)};
  require(unit >= 0 && static_cast<size_t>(unit) < places_.size(), "unit ", unit, " has no place");
  return places_[static_cast<size_t>(unit)];
}

bool ParameterStore::owns(const Parameter& parameter) const {
  return parameter.owner < 0 ||
         parameter.owner % mesh_.extent(kTensorAxes) == mesh_.index(kTensorAxes);
}

void ParameterStore::add(Parameter& parameter) {
  require(weights_ == nullptr, parameter.name, " was added after initialize()");
  const int previous = declared_.empty() ? 0 : declared_.back()->unit;
  require(parameter.unit >= previous && parameter.unit <= previous + 1, parameter.name,
          " is of unit ", parameter.unit, " after unit ", previous);
  declared_.push_back(&parameter);
  parameter.id =
      here(parameter.unit) && owns(parameter) ? static_cast<int>(parameters_.size()) : -1;
  if (parameter.id < 0) return;
  parameters_.push_back(&parameter);
  if (units_.empty() || units_.back() != parameter.unit) units_.push_back(parameter.unit);
}

int64_t ParameterStore::elementCount() const {
  int64_t total = 0;
  for (const Parameter* parameter : declared_)
    if (parameter->tiedTo == nullptr) total += parameter->global.count();
  return total;
}

/// The place of a unit among those that are here.
int ParameterStore::unitIndex(UnitId unit) const {
  const auto found = std::lower_bound(units_.begin(), units_.end(), unit);
  ensure(found != units_.end() && *found == unit, "unit ", unit, " is not here");
  return static_cast<int>(found - units_.begin());
}

/// Those that this rank has an end of.
std::vector<Tie> ParameterStore::ties() const {
  std::vector<Tie> all;
  for (const Parameter* copy : declared_) {
    if (copy->tiedTo == nullptr) continue;
    const Parameter& first = *copy->tiedTo;
    if (first.id >= 0 && copy->id >= 0) all.push_back({.piece = first.id, .copy = copy->id});
    if (first.id >= 0 && copy->id < 0)
      all.push_back({.piece = first.id, .rank = placeOf(copy->unit).rank});
    if (first.id < 0 && copy->id >= 0)
      all.push_back({.piece = copy->id, .rank = placeOf(first.unit).rank});
  }
  return all;
}

/// Over which some parameter is cut, here or elsewhere: the same on all ranks.
AxisSet ParameterStore::cuttingAxes() const {
  AxisSet axes = policy_.optimizer ? policy_.shard : AxisSet{};
  for (const Parameter* parameter : declared_) axes = axes | parameter->dividing();
  return axes;
}

void ParameterStore::initialize(uint64_t seed) {
  require(weights_ == nullptr && !parameters_.empty(), "initialize() comes once, after add()");
  cut_ = cutParameters(parameters_, mesh_, policy_);
  for (size_t i = 0; i < units_.size(); ++i) cut_.units[i].chunk = placeOf(units_[i]).chunk;
  state_.resize(cut_.pieces.size());
  backwards_.resize(cut_.units.size());
  weights_ = std::make_unique<Weights>(mesh_, kernels_, policy_, types_, cut_, stream_, counters_);
  gradients_ = std::make_unique<Gradients>(mesh_, kernels_, policy_, types_.gradients, cut_, ties(),
                                           stream_, counters_);
  lossMemory_ = mesh_.allocateOnHost(policy_.data(), sizeof(double));
  weights_->fill(seed);
  const OffloadedUpdates::Away away{.weight = weights_->mastersAway(),
                                    .gradient = gradients_->away(),
                                    .state = optimizer_.backing().pinned};
  if (away.weight || away.gradient || away.state)
    offloaded_ = std::make_unique<OffloadedUpdates>(mesh_, away, policy_.offload.partBytes);
  if (mesh_.stream()) awaitOthers();
}

/// What was taken and given back here held CUDA's lock: no rank of this GPU has a collective in
/// flight before all have done so (docs/explanation/training.md, On a GPU).
void ParameterStore::awaitOthers() {
  if (MeshCommunicator* all = mesh_.communicator(AxisSet::all())) all->barrier();
}

const Piece& ParameterStore::piece(const Parameter& parameter) const {
  ensure(parameter.id >= 0 && static_cast<size_t>(parameter.id) < cut_.pieces.size(),
         parameter.name, " is not in the store, or the store is not initialized");
  return cut_.pieces[static_cast<size_t>(parameter.id)];
}

void ParameterStore::acquire(UnitId unit, Phase phase) {
  ensure(weights_ != nullptr, "the store is not initialized");
  weights_->acquire(unitIndex(unit), phase);
}

void ParameterStore::release(UnitId unit, Phase phase) {
  const int index = unitIndex(unit);
  weights_->release(index, phase);
  if (phase == Phase::Backward) ++backwards_[static_cast<size_t>(index)];
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
  const int index = unitIndex(unit);
  gradients_->unitDone(index, microBatch, backwardContinues(index));
}

/// Backward goes from the last unit to the first: the next one after `unit` has not ended.
bool ParameterStore::backwardContinues(int unit) const {
  return unit > 0 && backwards_[static_cast<size_t>(unit) - 1] < microBatches_ * rounds_;
}

void ParameterStore::addLoss(double value, int microBatch) {
  ensure(microBatch < microBatches_ * rounds_, "a loss of micro-batch ", microBatch, " of ",
         microBatches_ * rounds_);
  const int inRound = microBatch % microBatches_;
  if (policy_.deterministic) {
    const GradientTreePlace place = treePlace(inRound);
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
    Stream& stream = lossStream();
    const Trace::OnStreamSpan span(mesh_.trace(), stream, "all_reduce", Trace::Lane::Store);
    group->allReduce(Purpose::LossSum,
                     {.send = total, .recv = total, .count = 1, .type = DType::Float64}, stream);
    lossAdded_.record(stream);
  }
}

/// Takes what the last round's AllReduce gave.
void ParameterStore::closeLossRound() {
  if (!lossRunning_) return;
  waitUntilReached(lossAdded_, lossStream(), mesh_.trace(), "all_reduce", Awaited::All);
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
  return parameter.tiedTo == nullptr &&
         isFirst(piece(parameter), AxisSet::all().without({Axis::Pipeline}));
}

/// Along those of `axes` that do not cut it.
bool ParameterStore::isFirst(const Piece& piece, AxisSet axes) const {
  const AxisSet cutting = piece.layout.axes() | piece.parameter->dividing();
  for (int i = 0; i < kAxisCount; ++i)
    if (const auto axis = static_cast<Axis>(i);
        axes.contains(axis) && !cutting.contains(axis) && mesh_.index(axis) > 0)
      return false;
  return true;
}

/// Of the gradient those rows that this rank adds to the norm, or those that it leaves to others.
std::vector<Tensor> ParameterStore::sumsInNorm(AxisSet cutting, bool areIn) const {
  std::vector<Tensor> sums;
  for (const Piece& piece : cut_.pieces)
    if ((piece.parameter->tiedTo == nullptr && isFirst(piece, cutting)) == areIn)
      sums.push_back(gradients_->sum(piece));
  return sums;
}

double ParameterStore::clip(double maxNorm, std::optional<double> lossScale) {
  gradients_->finish();
  ExactSum sum;
  const AxisSet cutting = cuttingAxes();
  kernels_.addSquares(sumsInNorm(cutting, true), sum);
  if (MeshCommunicator* group = mesh_.communicator(cutting | AxisSet{Axis::Pipeline})) {
    auto limbs = sum.limbs();
    group->allReduce(
        Purpose::NormSum,
        {.send = limbs.data(), .recv = limbs.data(), .count = limbs.size(), .type = DType::Int64});
    sum = ExactSum::fromLimbs(limbs);
  }
  const double unscaling = lossScale ? factor(Purpose::Unscaling, 1 / *lossScale) : 1;
  const double norm = std::sqrt(sum.value()) * unscaling;
  overflowed_ = lossScale && anyOverflow(norm, cutting);
  gradientScale_ =
      factor(Purpose::ClippingScale, maxNorm > 0 && norm > maxNorm ? maxNorm / norm : 1) *
      unscaling;
  return norm;
}

/// Rows that were left out of the norm, because another rank has them too, may be other ones here;
/// and a rank along an axis that the norm does not go over cannot know of it.
bool ParameterStore::anyOverflow(double norm, AxisSet cutting) {
  ExactSum others;
  kernels_.addSquares(sumsInNorm(cutting, false), others);
  int64_t overflowed = std::isfinite(norm) && std::isfinite(others.value()) ? 0 : 1;
  if (MeshCommunicator* all = mesh_.communicator(AxisSet::all()))
    all->allReduce(Purpose::OverflowVerdict,
                   {&overflowed, &overflowed, 1, DType::Int64, ReduceOp::Max});
  return overflowed != 0;
}

void ParameterStore::step(Optimizer& optimizer, double learningRate) {
  gradients_->finish();
  optimizer.beginStep(++steps_, learningRate);
  for (const Piece& piece : cut_.pieces)
    state(*piece.parameter, optimizer);  // zero, the first time
  std::vector<UpdateArgs> updates;
  for (const Piece& piece : cut_.pieces)
    updates.push_back({.weight = weights_->master(piece),
                       .gradient = gradients_->sum(piece),
                       .state = state(*piece.parameter, optimizer),
                       .decay = piece.parameter->decays(),
                       .copy = offloaded_ ? Tensor{} : weights_->kept(piece)});
  if (!offloaded_) {
    optimizer.update(updates, gradientScale_, kernels_);
  } else {
    offloaded_->begin();
    for (const UpdateArgs& update : updates)
      offloaded_->update(update, gradientScale_, optimizer, kernels_);
    offloaded_->end();
  }
  weights_->changed(!offloaded_);
}

StoreMemory ParameterStore::memory() const {
  const size_t gathered = weights_->gatheredBytes(), borrowed = gradients_->borrowedBytes();
  return {.weights = weights_->keptBytes() + gathered,
          .masters = weights_->masterBytes(),
          .gradients = gradients_->keptBytes() + borrowed,
          .gradientShards = gradients_->shardBytes(),
          .optimizer = optimizer_.usedBytes(),
          .staging = weights_->stagingBytes() + gradients_->stagingBytes() +
                     (offloaded_ ? offloaded_->bytes() : 0),
          .gathered = gathered,
          .borrowed = borrowed};
}

void ParameterStore::checkReplicas() {
  if (mesh_.dry()) return;
  auto different = static_cast<int64_t>(declared_.size());  // the first that is; none
  const auto check = [&](const Parameter& parameter, bool equal) {
    const auto place = std::find(declared_.begin(), declared_.end(), &parameter);
    if (!equal) different = std::min<int64_t>(different, place - declared_.begin());
  };
  const auto checkCopy = [&](const Piece& piece, AxisSet replicas, const Tensor& copy) {
    check(*piece.parameter, equalOver(replicas, hashOf(copy)));
  };
  const AxisSet copies = AxisSet::all().without({Axis::Pipeline});
  for (const Piece& piece : cut_.pieces)
    checkCopy(piece, copies.without(piece.layout.axes() | piece.parameter->dividing()),
              weights_->master(piece));
  if (cut_.shards > 1 && !policy_.parameters) {
    for (size_t unit = 0; unit < cut_.units.size(); ++unit) {
      const auto id = static_cast<int>(unit);
      weights_->acquire(id, Phase::Comparison);
      for (int i = cut_.units[unit].begin; i < cut_.units[unit].end; ++i) {
        const Piece& piece = cut_.pieces[static_cast<size_t>(i)];
        checkCopy(piece, policy_.shard, weights_->full(piece));
      }
      weights_->release(id, Phase::Comparison);
    }
    weights_->changed();  // a check changes nothing of what comes: they are gathered again
  }
  for (const Parameter* parameter : declared_)
    if (parameter->tiedTo != nullptr) check(*parameter, tiedAreEqual(*parameter));
  if (MeshCommunicator* all = mesh_.communicator(AxisSet::all()))
    all->allReduce(Purpose::ReplicaVerdict,
                   {&different, &different, 1, DType::Int64, ReduceOp::Min});
  if (different < static_cast<int64_t>(declared_.size()))
    fail(ErrorCode::Internal, "after step ", steps_, " the ranks' copies of ",
         declared_[static_cast<size_t>(different)]->name, " are not equal");
}

uint64_t ParameterStore::hashOf(const Tensor& rows) const {
  std::vector<std::byte> room;
  const Tensor ofHost = mesh_.onHost(rows, room);
  mesh_.download(rows, ofHost.data);
  return hashBytes(ofHost.data, ofHost.bytes());
}

/// On some of the ranks at least, unless all have the same; 0 is a rank's that has none.
bool ParameterStore::equalOver(AxisSet replicas, uint64_t mine) {
  MeshCommunicator* group = mesh_.communicator(replicas);
  if (group == nullptr) return true;
  uint64_t most = 0;
  group->allReduce(Purpose::ReplicaHashes, {&mine, &most, 1, DType::UInt64, ReduceOp::Max});
  return mine == 0 || mine == most;
}

bool ParameterStore::tiedAreEqual(const Parameter& copy) {
  const auto ofMaster = [&](const Parameter& parameter) -> uint64_t {
    return parameter.id < 0 ? 0 : hashOf(master(parameter));
  };
  const uint64_t first = ofMaster(*copy.tiedTo), second = ofMaster(copy);
  if (placeOf(copy.unit).rank == placeOf(copy.tiedTo->unit).rank) return first == second;
  return equalOver({Axis::Pipeline}, std::max(first, second));
}

}  // namespace tutti::parallel
