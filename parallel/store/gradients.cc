#include "parallel/store/gradients.h"

#include <algorithm>

#include "parallel/store/gradient_tree.h"
#include "parallel/store/offload.h"
#include "parallel/store/reached.h"

namespace tutti::parallel {

Gradients::Gradients(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy, DType type,
                     const Cut& cut, std::vector<Tie> ties, Stream& stream, StoreCounters& counters)
    : mesh_(mesh),
      kernels_(kernels),
      policy_(policy),
      type_(type),
      cut_(cut),
      stream_(stream),
      counters_(counters),
      kept_("gradients", mesh.backing()),
      elsewhere_(sharded() && policy.offload.gradients != Place::Device),
      totals_("gradients of rounds", backingAt(policy.offload.gradients, policy.offload, mesh)),
      borrowed_("gradients of a unit", mesh.backing()),
      tiedMemory_("tied gradients", mesh.backing()),
      ties_(std::move(ties)),
      units_(cut.units.size()),
      staging_{Staging(mesh.device()), Staging(mesh.device())},
      written_(cut.pieces.size(), -1) {
  planBuckets();
  planPartials();
  planTies();
  const AxisSet adding = !sharded()                          ? policy.data()
                         : mesh.extent(policy.replicate) > 1 ? policy.replicate
                                                             : policy.shard;
  const auto flat = [&](const Memory& memory, int64_t elements) {
    const Tensor tensor(memory.data(), type, {elements});
    kernels_.fillZero(tensor);  // what lies between gradients is never written
    return tensor;
  };
  int64_t most = 0;
  for (Bucket& bucket : buckets_) {
    most = std::max(most, bucket.block);
    if (elsewhere_) continue;
    const int64_t elements = keepsFull() ? bucket.full : bucket.block;
    bucket.memory = mesh.allocate(adding, byteCount(type, {elements}));
    bucket.reduced = flat(bucket.memory, elements).rows(0, sharded() ? bucket.block : bucket.full);
  }
  if (!sharded()) return;
  for (Staging& staging : staging_) {
    const int64_t blocks = most * cut.shards;
    staging.memory = mesh.allocate(policy.shard, byteCount(type, {blocks}));
    flat(staging.memory, blocks);
    if (!elsewhere_) continue;
    staging.sums = mesh.allocate(adding, byteCount(type, {most}));
    flat(staging.sums, most);
  }
}

// Units from last to first; a bucket closes when it is full, and at the end of a chunk: chunks are
// not at the same micro-batch.
void Gradients::planBuckets() {
  const bool unitByUnit = sharded() && policy_.parameters;
  for (int id = static_cast<int>(units_.size()) - 1; id >= 0; --id) {
    const size_t limit = unitByUnit             ? 0
                         : buckets_.size() <= 1 ? policy_.firstBucketBytes
                                                : policy_.bucketBytes;
    const UnitCut& cut = cut_.units[static_cast<size_t>(id)];
    if (buckets_.empty() || byteCount(type_, {buckets_.back().full}) >= limit ||
        cut.chunk != cut_.units[static_cast<size_t>(id) + 1].chunk)
      buckets_.emplace_back(mesh_.device());
    Bucket& bucket = buckets_.back();
    unit(id) = {.bucket = static_cast<int>(buckets_.size()) - 1,
                .full = bucket.full,
                .block = bucket.block};
    bucket.full += cut.full;
    bucket.block += cut.block;
    ++bucket.units;
  }
}

/// Over which of the mesh's axes modules write summands of a gradient, and what adds them up.
Gradients::PartialKind Gradients::partialKind(const Parameter& parameter) const {
  const PartialGradient& own = parameter.gradientPartial;
  const AxisSet axes = mesh_.longAxes(own.axes);
  return {axes | mesh_.longAxes(kTokenAxes.without(parameter.layout.axes())),
          axes.empty() ? Purpose::TokensGradientSum : own.purpose};
}

void Gradients::planPartials() {
  std::map<PartialKind, int64_t> elements;
  for (const Piece& piece : cut_.pieces) {
    const PartialKind kind = partialKind(*piece.parameter);
    if (kind.first.empty()) continue;
    partials_[kind].pieces.push_back(piece.parameter->id);
    elements[kind] += extentsOf(piece.box).count();
  }
  for (auto& [kind, partial] : partials_)
    partial.packed = mesh_.allocate(kind.first, byteCount(type_, {elements[kind]}));
}

void Gradients::planTies() {
  for (Tie& tie : ties_)
    if (tie.rank >= 0)
      tie.other =
          tiedMemory_.allocate(type_, extentsOf(cut_.pieces[static_cast<size_t>(tie.piece)].box));
}

Gradients::Unit& Gradients::unit(int id) {
  ensure(id >= 0 && static_cast<size_t>(id) < units_.size(), "there is no unit ", id);
  return units_[static_cast<size_t>(id)];
}

size_t Gradients::shardBytes() const {
  size_t total = totals_.usedBytes();
  for (const Bucket& bucket : buckets_) total += bucket.memory.bytes();
  return total;
}

size_t Gradients::stagingBytes() const {
  size_t total = 0;
  for (const Staging& staging : staging_) total += staging.memory.bytes() + staging.sums.bytes();
  for (const auto& [kind, partial] : partials_) total += partial.packed.bytes();
  return total + tiedMemory_.usedBytes();
}

void Gradients::beginStep(int microBatches, int rounds) {
  require(microBatches > 0 && rounds > 0,
          "a step needs at least one micro-batch and one round, not ", microBatches, " and ",
          rounds);
  require(!policy_.deterministic || std::has_single_bit(static_cast<unsigned>(microBatches)),
          "deterministic mode adds up a power of two of micro-batches, not ", microBatches);
  microBatches_ = microBatches;
  rounds_ = rounds;
  reductions_ = 0;
  finished_ = false;
  for (Bucket& bucket : buckets_) {
    bucket.done.synchronize();  // of a step that came to no end
    bucket.round = -1;
    bucket.unitsDone = 0;
    giveBack(bucket);
  }
  for (Staging& staging : staging_) staging.of = nullptr;
  for (Unit& u : units_) u.written = 0;
  std::fill(written_.begin(), written_.end(), -1);
}

void Gradients::beginRound(Bucket& bucket, int round) {
  if (round > 0) addRound(bucket);
  bucket.round = round;
  bucket.added = false;
  const auto levels = static_cast<size_t>(policy_.deterministic ? treeLevels(microBatches_) : 1);
  if (keepsFull() && bucket.levels.empty())
    bucket.levels.push_back(Tensor(bucket.memory.data(), type_, {bucket.full}));
  while (bucket.levels.size() < levels) {
    if (!keepsFull()) {
      bucket.levels.push_back(borrowed_.take(type_, bucket.full));
    } else {
      bucket.levels.push_back(kept_.allocate(type_, {bucket.full}));
      kernels_.fillZero(bucket.levels.back());
    }
  }
}

/// The full buffers, where they are not kept.
void Gradients::giveBack(Bucket& bucket) {
  if (keepsFull()) return;
  for (const Tensor& level : bucket.levels) borrowed_.give(level);
  bucket.levels.clear();
}

/// Adds the round that is reduced, or about to be, to those before.
void Gradients::addRound(Bucket& bucket) {
  if (bucket.added) return;
  continueBehind(bucket.done, stream_, mesh_, sharded() ? "reduce_scatter" : "all_reduce",
                 Awaited::Data);
  if (bucket.round == 0) {
    kernels_.copy(bucket.reduced, total(bucket));
  } else {
    kernels_.add(bucket.reduced, total(bucket));
  }
  added(bucket);
}

const Tensor& Gradients::total(Bucket& bucket) {
  if (bucket.total.data == nullptr) bucket.total = totals_.allocate(type_, bucket.reduced.shape);
  return bucket.total;
}

void Gradients::added(Bucket& bucket) {
  bucket.added = true;
  for (Staging& staging : staging_)
    if (staging.of == &bucket) staging.of = nullptr;
}

GradientSlot Gradients::slot(const Piece& piece, int microBatch) {
  int& written = written_[static_cast<size_t>(piece.parameter->id)];
  ensure(microBatch >= written && microBatch < microBatches_ * rounds_, piece.parameter->name,
         ": micro-batch ", microBatch, " of ", microBatches_ * rounds_, " after ", written);
  const bool again = written == microBatch;
  written = microBatch;
  const Unit& of = unit(piece.unit);
  Bucket& bucket = buckets_[static_cast<size_t>(of.bucket)];
  const int round = microBatch / microBatches_, inRound = microBatch % microBatches_;
  if (bucket.round != round) beginRound(bucket, round);
  const bool tree = policy_.deterministic;
  const Tensor& level = bucket.levels[static_cast<size_t>(tree ? treePlace(inRound).level : 0)];
  return {level.rows(of.full + piece.full, piece.local.count()).view(piece.local),
          again                  ? factor(Purpose::SecondUse, 1, 0)
          : !tree && inRound > 0 ? factor(Purpose::Accumulation, 1, 0)
                                 : 0.0};
}

void Gradients::unitDone(int id, int microBatch, bool early) {
  Unit& u = unit(id);
  ensure(u.written == microBatch && microBatch < microBatches_ * rounds_, "unit ", id,
         ": micro-batch ", microBatch, " came when ", u.written, " of ", microBatches_ * rounds_,
         " were done");
  ++u.written;
  Bucket& bucket = buckets_[static_cast<size_t>(u.bucket)];
  const int round = microBatch / microBatches_, inRound = microBatch % microBatches_;
  if (bucket.round != round) beginRound(bucket, round);
  if (policy_.deterministic) {
    const int64_t elements = cut_.units[static_cast<size_t>(id)].full;
    const GradientTreePlace place = treePlace(inRound);
    for (int level = place.level; level > place.level - place.merges; --level)
      kernels_.add(bucket.levels[static_cast<size_t>(level)].rows(u.full, elements),
                   bucket.levels[static_cast<size_t>(level) - 1].rows(u.full, elements));
  }
  if (inRound + 1 < microBatches_ || ++bucket.unitsDone < bucket.units) return;
  bucket.unitsDone = 0;
  reduce(bucket, early);
}

void Gradients::reduce(Bucket& bucket, bool early) {
  ++reductions_;
  MeshCommunicator* all = mesh_.communicator(policy_.data());
  if (all == nullptr) return;
  counters_.startedEarly += early;
  if (reductions_ == rounds_ * static_cast<int>(buckets_.size()))
    for (const Bucket& other : buckets_)
      counters_.finishedEarly += &other != &bucket && other.done.query();
  if (sharded()) {
    scatter(bucket);
  } else {
    const Tensor& sum = bucket.reduced;
    const Trace::OnStreamSpan span(mesh_.trace(), stream_, "all_reduce", Trace::Lane::Store);
    all->allReduce(Purpose::GradientSum,
                   {.send = sum.data,
                    .recv = sum.data,
                    .count = static_cast<size_t>(sum.count()),
                    .type = type_},
                   stream_);
    counters_.allReduce.add(sum.bytes());
  }
  bucket.done.record(stream_);
}

/// Puts the rows of each rank together: [ranks, elements].
void Gradients::fillBlocks(const Bucket& bucket, const Tensor& blocks) {
  for (size_t id = 0; id < units_.size(); ++id) {
    const Unit& u = units_[id];
    if (&buckets_[static_cast<size_t>(u.bucket)] != &bucket) continue;
    for (int i = cut_.units[id].begin; i < cut_.units[id].end; ++i) {
      const Piece& piece = cut_.pieces[static_cast<size_t>(i)];
      const Tensor whole =
          bucket.levels[0].rows(u.full + piece.full, piece.local.count()).view(piece.local);
      const int64_t before = u.block + piece.block;
      const Tensor own = blocks.part(1, before, bucket.block - before);
      for (const BlockRows& rows : blockRows(piece, whole, own))
        kernels_.copy(rows.full, rows.blocks);
    }
  }
}

void Gradients::scatter(Bucket& bucket) {
  Staging& staging = staging_[static_cast<size_t>(reductions_) % staging_.size()];
  continueBehind(staging.sent, stream_, mesh_, "reduce_scatter", Awaited::Data);
  if (elsewhere_) {
    if (staging.of != nullptr) addRound(*staging.of);
    staging.of = &bucket;
    bucket.reduced = Tensor(staging.sums.data(), type_, {bucket.block});
  }
  const Tensor blocks(staging.memory.data(), type_, {bucket.block * cut_.shards});
  fillBlocks(bucket, blocks.view({cut_.shards, bucket.block}));
  giveBack(bucket);
  const Tensor& sum = bucket.reduced;
  {
    const Trace::OnStreamSpan span(mesh_.trace(), stream_, "reduce_scatter", Trace::Lane::Store);
    mesh_.communicator(policy_.shard)
        ->reduceScatter(Purpose::GradientShardSum,
                        {.send = blocks.data,
                         .recv = sum.data,
                         .count = static_cast<size_t>(bucket.block),
                         .type = type_},
                        stream_);
  }
  counters_.reduceScatter.add(blocks.bytes());
  staging.sent.record(stream_);
  if (MeshCommunicator* replicas = mesh_.communicator(policy_.replicate)) {
    const Trace::OnStreamSpan span(mesh_.trace(), stream_, "all_reduce", Trace::Lane::Store);
    replicas->allReduce(Purpose::GradientReplicaSum,
                        {.send = sum.data,
                         .recv = sum.data,
                         .count = static_cast<size_t>(bucket.block),
                         .type = type_},
                        stream_);
    counters_.allReduce.add(sum.bytes());
  }
  if (away() && bucket.round == 0) {
    copy({.to = total(bucket).data, .from = sum.data, .bytes = sum.bytes()}, stream_);
    added(bucket);
  }
}

void Gradients::finish() {
  if (finished_) return;
  ensure(reductions_ == rounds_ * static_cast<int>(buckets_.size()), "only ", reductions_, " of ",
         rounds_ * static_cast<int>(buckets_.size()), " buckets have all their gradients");
  for (Bucket& bucket : buckets_) {
    continueBehind(bucket.done, stream_, mesh_, sharded() ? "reduce_scatter" : "all_reduce",
                   Awaited::Data);
    if (keepsTotals()) addRound(bucket);
  }
  addPartials();
  for (const Tie& tie : ties_) addTie(tie);
  finished_ = true;
}

/// Two summands have one sum, in whatever order.
void Gradients::addTie(const Tie& tie) {
  const Tensor mine = rowsOf(cut_.pieces[static_cast<size_t>(tie.piece)]);
  if (mine.count() == 0) return;
  if (tie.rank < 0) {
    const Tensor copy = rowsOf(cut_.pieces[static_cast<size_t>(tie.copy)]);
    kernels_.add(copy, mine);
    kernels_.copy(mine, copy);
    return;
  }
  constexpr Purpose purpose = Purpose::TiedGradient;
  const MeshMessage messages[] = {MeshMessage::to(tie.rank, purpose, mine),
                                  MeshMessage::from(tie.rank, purpose, tie.other)};
  mesh_.communicator({Axis::Pipeline})->exchange(messages);
  kernels_.add(tie.other, mine);
}

void Gradients::addPartials() {
  for (const auto& [kind, partial] : partials_) {
    const auto& [axes, purpose] = kind;
    // Calls visit(gradient, its place among those that are added) for each piece.
    const auto forEach = [&, &partial = partial](const auto& visit) {
      auto* at = static_cast<std::byte*>(partial.packed.data());
      for (const int id : partial.pieces) {
        const Tensor rows = rowsOf(cut_.pieces[static_cast<size_t>(id)]);
        visit(rows, Tensor(at, type_, rows.shape));
        at += rows.bytes();
      }
    };
    forEach([&](const Tensor& rows, const Tensor& packed) { kernels_.copy(rows, packed); });
    void* const memory = partial.packed.data();
    const size_t bytes = partial.packed.bytes();
    mesh_.communicator(axes)->allReduce(
        purpose, {.send = memory, .recv = memory, .count = bytes / sizeOf(type_), .type = type_});
    counters_.partialAllReduce.add(bytes);
    forEach([&](const Tensor& rows, const Tensor& packed) { kernels_.copy(packed, rows); });
  }
}

Tensor Gradients::sum(const Piece& piece) const {
  ensure(finished_ && rounds_ > 0, "the gradient of ", piece.parameter->name, " is not complete");
  return rowsOf(piece);
}

/// Of what is added over micro-batches, rounds and data-parallel ranks, this rank's.
Tensor Gradients::rowsOf(const Piece& piece) const {
  const Unit& of = units_[static_cast<size_t>(piece.unit)];
  const Bucket& bucket = buckets_[static_cast<size_t>(of.bucket)];
  const Tensor& all = keepsTotals() ? bucket.total : bucket.reduced;
  const Range rows = piece.rows[static_cast<size_t>(cut_.shard)];
  const int64_t begin = sharded() ? of.block + piece.block : of.full + piece.full;
  return all.rows(begin, rows.count() * piece.rowElements).view(piece.shape(rows));
}

}  // namespace tutti::parallel
