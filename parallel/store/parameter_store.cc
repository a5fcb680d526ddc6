#include "parallel/store/parameter_store.h"

#include <cmath>
#include <cstring>

#include "parallel/store/bucket.h"
#include "parallel/store/gradient_tree.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {

struct ParameterStore::Entry {
  Tensor weight;
  std::vector<Tensor> state;
  int bucket = -1;
  int64_t offset = 0;  // elements into the bucket
  int written = -1;    // last micro-batch whose contribution began
};

struct ParameterStore::UnitRange {
  int bucket = -1;
  int64_t begin = 0, end = 0;  // elements of the bucket
  int done = 0;                // micro-batches whose gradients are written
  int released = 0;            // micro-batches whose backward has ended
};

ParameterStore::ParameterStore(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy,
                               DType type)
    : mesh_(mesh),
      kernels_(kernels),
      policy_(policy),
      type_(type),
      state_(std::make_unique<Arena>("parameter")) {
  if (policy.optimizer || policy.gradients || policy.parameters)
    fail(ErrorCode::Unsupported,
         "the parameter store replicates everything so far: optimizer, "
         "gradients and parameters cannot be sharded");
  const Communicator* group = mesh.communicator(policy.replicate);
  require(!policy.deterministic || group == nullptr || group->deterministic(),
          "a deterministic policy needs a communicator that is deterministic too");
}

ParameterStore::~ParameterStore() = default;

void ParameterStore::add(Parameter& parameter) {
  require(entries_.empty(), parameter.name, " was added after initialize()");
  require(parameter.layout.replicated(), parameter.name, " has layout ",
          parameter.layout.describe(parameter.global.rank()),
          ", but only replicated parameters can be stored so far");
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
  require(entries_.empty() && !parameters_.empty(), "initialize() comes once, after add()");
  entries_.resize(parameters_.size());
  units_.resize(static_cast<size_t>(parameters_.back()->unit) + 1);
  planBuckets();
  for (Bucket& bucket : buckets_)
    bucket.memory = mesh_.allocate(policy_.replicate, bucketBytes(bucket));
  for (const Parameter* parameter : parameters_) {
    entry(*parameter).weight = state_->allocate(type_, parameter->global);
    fillInitial(*parameter, seed, entry(*parameter).weight);
  }
  lossMemory_ = mesh_.allocate(policy_.replicate, sizeof(double));
}

// Units from last to first; a bucket closes when it is full. Gradients start on cache lines.
void ParameterStore::planBuckets() {
  const int64_t line = static_cast<int64_t>(64 / sizeOf(type_));
  for (int unit = static_cast<int>(units_.size()) - 1; unit >= 0; --unit) {
    const size_t limit = buckets_.size() <= 1 ? policy_.firstBucketBytes : policy_.bucketBytes;
    if (buckets_.empty() || bucketBytes(buckets_.back()) >= limit) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    UnitRange& range = units_[static_cast<size_t>(unit)];
    range.bucket = static_cast<int>(buckets_.size()) - 1;
    range.begin = bucket.elements;
    for (const Parameter* parameter : parameters_) {
      if (parameter->unit != unit) continue;
      entry(*parameter).bucket = range.bucket;
      entry(*parameter).offset = bucket.elements;
      bucket.elements += (parameter->global.count() + line - 1) / line * line;
    }
    range.end = bucket.elements;
    ++bucket.units;
  }
}

size_t ParameterStore::bucketBytes(const Bucket& bucket) const {
  return byteCount(type_, {bucket.elements});
}

ParameterStore::Entry& ParameterStore::entry(const Parameter& parameter) {
  ensure(parameter.id >= 0 && static_cast<size_t>(parameter.id) < entries_.size(), parameter.name,
         " is not in the store, or the store is not initialized");
  return entries_[static_cast<size_t>(parameter.id)];
}

ParameterStore::UnitRange& ParameterStore::unitRange(UnitId unit) {
  ensure(unit >= 0 && static_cast<size_t>(unit) < units_.size(), "there is no unit ", unit);
  return units_[static_cast<size_t>(unit)];
}

void ParameterStore::acquire(UnitId unit, Phase) { unitRange(unit); }
void ParameterStore::release(UnitId unit, Phase phase) {
  UnitRange& range = unitRange(unit);
  if (phase == Phase::Backward) ++range.released;
}

Tensor ParameterStore::weight(const Parameter& parameter) { return entry(parameter).weight; }

void ParameterStore::beginStep(int microBatches) {
  require(microBatches > 0, "a step needs at least one micro-batch");
  require(!policy_.deterministic || std::has_single_bit(static_cast<unsigned>(microBatches)),
          "deterministic mode adds up a power of two of micro-batches, not ", microBatches);
  microBatches_ = microBatches;
  const size_t levels =
      policy_.deterministic ? static_cast<size_t>(treeLevels(microBatches)) : size_t{1};
  for (Bucket& bucket : buckets_) {
    if (bucket.levels.empty())
      bucket.levels.emplace_back(bucket.memory.data(), type_, Shape{bucket.elements});
    // Padding between gradients is never written: it is zero from here on.
    if (bucket.levels.size() == 1 && steps_ == 0) kernels_.fillZero(bucket.levels[0]);
    while (bucket.levels.size() < levels) {
      bucket.levels.push_back(state_->allocate(type_, {bucket.elements}));
      kernels_.fillZero(bucket.levels.back());
    }
    bucket.unitsDone = 0;
  }
  for (Entry& e : entries_) e.written = -1;
  for (UnitRange& range : units_) range.done = range.released = 0;
  lossLevels_.assign(levels, 0.0);
  bucketsStarted_ = 0;
  gradientsFinished_ = false;
  gradientScale_ = 1;
  counters_ = {};
}

GradientSlot ParameterStore::gradient(const Parameter& parameter, int microBatch) {
  Entry& e = entry(parameter);
  ensure(microBatch >= e.written && microBatch < microBatches_, parameter.name, ": micro-batch ",
         microBatch, " of ", microBatches_, " after ", e.written);
  const bool again = e.written == microBatch;
  e.written = microBatch;
  const bool tree = policy_.deterministic;
  const auto& levels = buckets_[static_cast<size_t>(e.bucket)].levels;
  const Tensor& level = levels[static_cast<size_t>(tree ? treePlace(microBatch).level : 0)];
  Tensor buffer = level.rows(e.offset, parameter.global.count()).view(parameter.global);
  return {buffer, again || (!tree && microBatch > 0) ? 1.0 : 0.0};
}

void ParameterStore::weightsDone(UnitId unit, int microBatch) {
  UnitRange& range = unitRange(unit);
  ensure(range.done == microBatch && microBatch < microBatches_, "unit ", unit, ": micro-batch ",
         microBatch, " came when ", range.done, " of ", microBatches_, " were done");
  ++range.done;
  Bucket& bucket = buckets_[static_cast<size_t>(range.bucket)];
  if (policy_.deterministic) {
    const TreePlace place = treePlace(microBatch);
    for (int level = place.level; level > place.level - place.merges; --level)
      kernels_.add(
          bucket.levels[static_cast<size_t>(level)].rows(range.begin, range.end - range.begin),
          bucket.levels[static_cast<size_t>(level) - 1].rows(range.begin, range.end - range.begin));
  }
  if (range.done == microBatches_ && ++bucket.unitsDone == bucket.units)
    startAllReduce(bucket, unit);
}

/// Backward goes from the last unit to the first: the next one after `unit` has not ended.
bool ParameterStore::backwardContinues(UnitId unit) const {
  return unit > 0 && units_[static_cast<size_t>(unit) - 1].released < microBatches_;
}

void ParameterStore::startAllReduce(Bucket& bucket, UnitId completedBy) {
  Communicator* group = mesh_.communicator(policy_.replicate);
  const bool last = ++bucketsStarted_ == static_cast<int>(buckets_.size());
  if (group == nullptr) return;
  counters_.startedEarly += backwardContinues(completedBy);
  if (last)
    for (const Bucket& other : buckets_)
      if (&other != &bucket && other.reduced.query()) ++counters_.finishedEarly;
  void* data = bucket.memory.data();
  group->allReduce(
      {.send = data, .recv = data, .count = static_cast<size_t>(bucket.elements), .type = type_},
      stream_);
  bucket.reduced.record(stream_);
  ++counters_.allReduces;
  counters_.allReduceBytes += bucketBytes(bucket);
}

void ParameterStore::addLoss(double value, int microBatch) {
  ensure(microBatch < microBatches_, "a loss of micro-batch ", microBatch, " of ", microBatches_);
  if (policy_.deterministic) {
    const TreePlace place = treePlace(microBatch);
    auto at = lossLevels_.begin() + place.level;
    *at = value;
    for (int i = 0; i < place.merges; ++i, --at) *(at - 1) += *at;
  } else {
    lossLevels_[0] += value;
  }
  if (microBatch + 1 < microBatches_) return;
  double& total = *lossMemory_.as<double>();
  total = lossLevels_[0];
  if (Communicator* group = mesh_.communicator(policy_.replicate))
    group->allReduce({.send = &total, .recv = &total, .count = 1, .type = DType::Float64}, stream_);
}

double ParameterStore::finishLoss() {
  finishGradients();
  return *lossMemory_.as<double>();
}

void ParameterStore::finishGradients() {
  if (gradientsFinished_) return;
  ensure(bucketsStarted_ == static_cast<int>(buckets_.size()), "only ", bucketsStarted_, " of ",
         buckets_.size(), " buckets have all their gradients");
  if (mesh_.communicator(policy_.replicate) != nullptr) stream_.synchronize();
  gradientsFinished_ = true;
}

Tensor ParameterStore::finishedGradient(const Parameter& parameter) {
  finishGradients();
  const Entry& e = entry(parameter);
  return buckets_[static_cast<size_t>(e.bucket)]
      .levels[0]
      .rows(e.offset, parameter.global.count())
      .view(parameter.global);
}

double ParameterStore::clip(double maxNorm) {
  finishGradients();
  ExactSum sum;
  for (const Bucket& bucket : buckets_) kernels_.addSquares(bucket.levels[0], sum);
  const double norm = std::sqrt(sum.value());
  gradientScale_ = maxNorm > 0 && norm > maxNorm ? maxNorm / norm : 1;
  return norm;
}

void ParameterStore::step(Optimizer& optimizer, double learningRate) {
  finishGradients();
  optimizer.beginStep(++steps_, learningRate);
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    while (static_cast<int>(e.state.size()) < optimizer.stateCount()) {
      e.state.push_back(state_->allocate(type_, parameter->global));
      kernels_.fillZero(e.state.back());
    }
    optimizer.update({.weight = e.weight,
                      .gradient = finishedGradient(*parameter),
                      .state = e.state,
                      .gradientScale = gradientScale_,
                      .decay = parameter->decays()},
                     kernels_);
  }
}

void ParameterStore::checkReplicas() {
  Communicator* group = mesh_.communicator(policy_.replicate);
  if (group == nullptr) return;
  for (const Parameter* parameter : parameters_) {
    const Tensor weight = entry(*parameter).weight;  // contiguous: the store allocated it
    const uint64_t mine = hashBytes(weight.data, weight.bytes());
    uint64_t least = 0, most = 0;
    group->allReduce({&mine, &least, 1, DType::UInt64, ReduceOp::Min});
    group->allReduce({&mine, &most, 1, DType::UInt64, ReduceOp::Max});
    ensure(least == most, "after step ", steps_, " the ranks' copies of ", parameter->name,
           " are not equal");
  }
}

}  // namespace tutti::parallel
