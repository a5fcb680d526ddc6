#include "parallel/store/weights.h"

#include <algorithm>

#include "parallel/store/initial_values.h"
#include "parallel/store/offload.h"
#include "parallel/store/reached.h"

namespace tutti::parallel {

namespace {

/// Masters are parameters, and those that are no weights are state of the optimizer too.
Place placeOfMasters(const Offload& offload, const StoreTypes& types) {
  const bool state = types.weights != types.master;
  return std::max(offload.parameters, state ? offload.optimizer : Place::Device);
}

Purpose gatherPurpose(Phase phase) {
  switch (phase) {
    case Phase::Forward: return Purpose::ForwardWeights;
    case Phase::Backward: return Purpose::BackwardWeights;
    case Phase::Comparison: break;
  }
  return Purpose::ComparedWeights;
}

ShardPolicy effective(ShardPolicy policy, const Cut& cut) {
  if (cut.shards == 1) policy.parameters = false;  // there is nobody to share them with
  return policy;
}

}  // namespace

Weights::Weights(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy,
                 const StoreTypes& types, const Cut& cut, Stream& stream, StoreCounters& counters)
    : mesh_(mesh),
      kernels_(kernels),
      policy_(effective(policy, cut)),
      types_(types),
      cut_(cut),
      stream_(stream),
      counters_(counters),
      masters_("master weights",
               backingAt(placeOfMasters(policy.offload, types), policy.offload, mesh)),
      kept_("weights", mesh.backing()),
      gathered_("gathered weights", mesh.backing()),
      units_(cut.units.size()),
      slots_{Slot(mesh.device()), Slot(mesh.device())},
      enqueued_(mesh.device()) {
  int64_t most = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!mastersWithin()) units_[i].masters = masters_.allocate(types.master, {cut.units[i].block});
    if (!policy_.parameters) units_[i].full = kept_.allocate(types.weights, {cut.units[i].full});
    most = std::max(most, cut.units[i].block);
  }
  if (cut.shards == 1) return;
  for (Slot& slot : slots_) {
    const Shape blocks{most * cut.shards};
    slot.memory = mesh.allocate(policy.shard, byteCount(types.weights, blocks));
    kernels_.fillZero(Tensor(slot.memory.data(), types.weights, blocks));
  }
}

Weights::Unit& Weights::unit(int id) {
  ensure(id >= 0 && static_cast<size_t>(id) < units_.size(), "there is no unit ", id);
  return units_[static_cast<size_t>(id)];
}

size_t Weights::stagingBytes() const { return slots_[0].memory.bytes() + slots_[1].memory.bytes(); }

Tensor Weights::full(const Piece& piece) const {
  const auto id = static_cast<size_t>(piece.unit);
  ensure(units_[id].current, "the weights of ", piece.parameter->name, " were used while unit ", id,
         " was not acquired");
  return inFull(piece);
}

Tensor Weights::inFull(const Piece& piece) const {
  const Unit& of = units_[static_cast<size_t>(piece.unit)];
  return of.full.rows(piece.full, piece.local.count()).view(piece.local);
}

Tensor Weights::kept(const Piece& piece) const { return keepsCopies() ? inFull(piece) : Tensor{}; }

Tensor Weights::master(const Piece& piece) const {
  const Unit& of = units_[static_cast<size_t>(piece.unit)];
  const Range rows = piece.rows[static_cast<size_t>(cut_.shard)];
  const int64_t count = rows.count() * piece.rowElements;
  const int64_t within = piece.full + rows.begin * piece.rowElements;
  return (mastersWithin() ? of.full.rows(within, count) : of.masters.rows(piece.block, count))
      .view(piece.shape(rows));
}

void Weights::fill(uint64_t seed) {
  if (mesh_.dry()) return changed();
  Arena narrow("first values", mesh_.backing());
  std::vector<std::byte> room;
  for (const Piece& piece : cut_.pieces) {
    const ArenaScope scope(narrow);
    const Tensor values = master(piece);
    const Tensor wide =
        isNarrow(values.type) ? narrow.allocate(DType::Float32, values.shape) : values;
    const Tensor ofHost = mesh_.onHost(wide, room);
    fillInitial(*piece.parameter, seed, piece.box, ofHost);
    mesh_.upload(ofHost.data, wide);
    if (isNarrow(values.type)) kernels_.copy(wide, values);
  }
  changed();
}

void Weights::changed(bool isKeptWritten) {
  for (Unit& u : units_) {
    ensure(u.held == 0, "weights changed while a unit was acquired");
    discard(u);
    giveBack(u);
    u.current = cut_.shards == 1 && (mastersWithin() || isKeptWritten);
  }
}

/// Forgets what was gathered ahead.
void Weights::discard(Unit& u) {
  if (u.slot < 0) return;
  Slot& slot = slots_[static_cast<size_t>(u.slot)];
  if (mesh_.stream())
    slot.gathered.wait(mesh_.stream());  // what fills it next is computed there
  else
    slot.gathered.synchronize();
  slot.taken = false;
  u.slot = -1;
}

void Weights::giveBack(Unit& u) {
  u.backwards = 0;
  if (!policy_.parameters) return;
  if (u.full.data != nullptr) gathered_.give(u.full);
  u.full = {};
  u.current = false;
}

void Weights::acquire(int id, Phase phase) {
  Unit& u = unit(id);
  makeCurrent(id, phase);
  ++u.held;
  const int next = phase == Phase::Backward ? id - 1 : id + 1;
  if (cut_.shards == 1 || next < 0 || static_cast<size_t>(next) == units_.size()) return;
  if (!unit(next).current && unit(next).slot < 0) counters_.prefetched += startGather(next, phase);
}

void Weights::release(int id, Phase phase) {
  Unit& u = unit(id);
  ensure(u.held > 0, "unit ", id, " was released and not acquired");
  --u.held;
  if (phase == Phase::Backward) ++u.backwards;
  if (u.held > 0 || policy_.reshard.when == Reshard::Never) return;
  if (policy_.reshard.when == Reshard::AfterForward || u.backwards >= policy_.reshard.backwards)
    giveBack(u);
}

void Weights::makeCurrent(int id, Phase phase) {
  Unit& u = unit(id);
  if (u.current) return;
  if (cut_.shards > 1) {
    if (u.slot < 0 &&
        !startGather(id, phase)) {  // both hold weights that were not asked for after all
      for (Unit& other : units_) discard(other);
      startGather(id, phase);
    }
    unpack(id);
  } else {
    u.current = true;  // for full(): from here on what it names is valid
    const UnitCut& cut = cut_.units[static_cast<size_t>(id)];
    std::vector<TensorCopy> copies;
    for (int i = cut.begin; i < cut.end; ++i) {
      const Piece& piece = cut_.pieces[static_cast<size_t>(i)];
      copies.push_back({master(piece), full(piece)});
    }
    kernels_.copyAll(copies);
  }
}

/// Whether there was a staging buffer for it.
bool Weights::startGather(int id, Phase phase) {
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken; });
  if (free == slots_.end()) return false;
  const UnitCut& cut = cut_.units[static_cast<size_t>(id)];
  const Shape blocks{cut.block * cut_.shards};
  const Tensor staging(free->memory.data(), types_.weights, blocks);
  const Tensor mine = staging.rows(cut.block * cut_.shard, cut.block);
  const bool onStream = mastersAway() && types_.weights == types_.master;
  if (onStream) {
    enqueued_.record(mesh_.stream());  // what was unpacked from this buffer, and is computed still
    enqueued_.wait(stream_);
  }
  std::vector<TensorCopy> copies;
  for (int i = cut.begin; i < cut.end; ++i) {
    const Piece& piece = cut_.pieces[static_cast<size_t>(i)];
    const Tensor rows = master(piece), to = mine.rows(piece.block, rows.count());
    if (onStream)
      copy({.to = to.data, .from = rows.data, .bytes = rows.bytes()}, stream_);
    else
      copies.push_back({rows, to.view(rows.shape)});
  }
  kernels_.copyAll(copies);
  const Purpose purpose = gatherPurpose(phase);
  const Trace::OnStreamSpan span(mesh_.trace(), stream_, "all_gather", Trace::Lane::Store);
  mesh_.communicator(policy_.shard)
      ->allGather(purpose,
                  {.send = mine.data,
                   .recv = staging.data,
                   .count = static_cast<size_t>(cut.block),
                   .type = types_.weights},
                  stream_);
  free->gathered.record(stream_);
  free->taken = true;
  unit(id).slot = static_cast<int>(free - slots_.begin());
  counters_.allGather.add(staging.bytes());
  return true;
}

void Weights::unpack(int id) {
  Unit& u = unit(id);
  Slot& slot = slots_[static_cast<size_t>(u.slot)];
  continueBehind(slot.gathered, stream_, mesh_, "all_gather", Awaited::Data);
  const UnitCut& cut = cut_.units[static_cast<size_t>(id)];
  if (u.full.data == nullptr) u.full = gathered_.take(types_.weights, cut.full);
  u.current = true;
  const Tensor blocks(slot.memory.data(), types_.weights, {cut_.shards, cut.block});
  for (int i = cut.begin; i < cut.end; ++i) {
    const Piece& piece = cut_.pieces[static_cast<size_t>(i)];
    const Tensor own = blocks.part(1, piece.block, cut.block - piece.block);
    for (const BlockRows& rows : blockRows(piece, full(piece), own))
      kernels_.copy(rows.blocks, rows.full);
  }
  slot.taken = false;
  u.slot = -1;
}

}  // namespace tutti::parallel
