#include "src/executor/host/host_operation.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>

#include "src/base/check.h"
#include "src/base/transfer_key.h"
#include "src/executor/host/fold_order.h"
#include "src/executor/host/short_program.h"
#include "src/numbers/element.h"
#include "src/numbers/fold_by.h"

namespace tutti::executor {

using plan::Buffer;
using plan::Fold;
using plan::Lane;
using plan::Port;
using plan::Step;
using transports::SlotHeader;

namespace {

using Time = std::chrono::steady_clock::time_point;

// Bytes that one poll moves at most, so that aborts and other operations are seen to.
constexpr uint64_t kPieceBytes = 1 << 20;

/// An operation that is in a reduction of the caller's own, on this thread.
struct Combining {
  explicit Combining(const HostOperation& its) : operation(its), outer(innermost) {
    innermost = this;
  }
  ~Combining() { innermost = outer; }
  Combining(const Combining&) = delete;
  Combining& operator=(const Combining&) = delete;

  const HostOperation& operation;
  const Combining* const outer;  // which has called what calls this one
  static inline thread_local const Combining* innermost = nullptr;
};

/// Calls what the caller gave. Whatever it throws is his error, but for want of memory.
void combineBy(const Reduction& reduction, const void* in, void* inout, size_t count) {
  try {
    return reduction.function()(in, inout, count);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    base::fail(ErrorCode::InvalidArgument, "the reduction ", reduction.name(),
               " threw: ", error.what());
  } catch (...) {
    base::fail(ErrorCode::InvalidArgument, "the reduction ", reduction.name(),
               " threw what is no std::exception");
  }
}

bool hasChannel(const std::vector<Port>& ports) {
  return std::any_of(ports.begin(), ports.end(),
                     [](const Port& p) { return p.kind == Port::Kind::Channel; });
}

bool isTouched(const PreparedPlan* plan, Buffer buffer) {
  if (!plan) return false;
  const plan::AccessSet& touched = plan->spec().mapped;
  return buffer == Buffer::In ? touched.in : touched.out;
}

/// Whether the plan may run on what the record says of its rank's buffers.
bool allows(const EntryRecord& entry, const PreparedPlan* plan) {
  if (!plan) return false;
  const bool reads = plan->spec().protocol == plan::Protocol::Attached;
  const auto isReached = [&](const WindowPlace& place) {
    return place.window != WindowPlace::kNone && (reads || place.window != WindowPlace::kMemory);
  };
  return (!isTouched(plan, Buffer::In) || isReached(entry.in)) &&
         (!isTouched(plan, Buffer::Out) || isReached(entry.out));
}

}  // namespace

HostPlan::HostPlan(const plan::PlanSpec& spec, plan::Program program, int rank)
    : spec_(spec), program_(std::move(program)) {
  if (spec.mapped.any()) return;
  holders_ = plan::holdersOf(spec, program_, rank, false);
  holdersInPlace_ = plan::holdersOf(spec, program_, rank, true);
}

const plan::Holders* HostPlan::holders(bool inPlace) const {
  if (holders_.empty()) return nullptr;
  return inPlace ? &holdersInPlace_ : &holders_;
}

void HostOperation::begin(const HostRank& at, const HostPlans& plans, CollectiveCall&& call,
                          const ShortProgram* stopped) {
  at_ = at;
  plans_ = plans;
  call_ = std::move(call);
  count_ = call_.facts.blockCount(at_.size);
  if (call_.scalarAt && count_ > 0)
    call_.scalar = numbers::elementAt(call_.facts.type, call_.scalarAt);
  userBytes_ = count_ * sizeOf(call_.facts.type);
  active_ = nullptr;
  waitingFor_ = -1;
  bytesReceived_ = 0;
  entriesToSend_ = entriesToReceive_ = 0;
  if (at_.endpoint && sendRings_.empty()) {
    const size_t rings = static_cast<size_t>(at_.endpoint->layout().channels * at_.size);
    sendRings_.resize(rings);
    receiveRings_.resize(rings);
  }
  if (plans_.mapped)
    prepareEntry();
  else
    start(*plans_.staged, stopped);
}

void HostOperation::ranShort(const HostPlan& plan, uint64_t bytesReceived) {
  active_ = &plan;
  bytesReceived_ = bytesReceived;
}

transports::SendRing& HostOperation::sendRing(int peer, int channel) {
  auto*& ring = sendRings_[static_cast<size_t>(channel * at_.size + peer)];
  if (!ring) ring = &at_.endpoint->sendRing(peer, channel);
  return *ring;
}

transports::ReceiveRing& HostOperation::receiveRing(int peer, int channel) {
  auto*& ring = receiveRings_[static_cast<size_t>(channel * at_.size + peer)];
  if (!ring) ring = &at_.endpoint->receiveRing(peer, channel);
  return *ring;
}

uint64_t HostOperation::bufferBytes(const plan::PlanSpec& spec, Buffer buffer) const {
  if (!call_.blocks) return userBytes_ * plan::blocksOf(spec, buffer);
  if (plan::blocksOf(spec, buffer) == 1) return (*call_.blocks)[at_.rank].bytes;
  return plan::endOf(*call_.blocks);
}

// One buffer may be a block of the other. What this rank is not given may be any pointer.
bool HostOperation::isInPlace(const plan::PlanSpec& spec) const {
  return plan::isGiven(spec, Buffer::In, at_.rank) && plan::isGiven(spec, Buffer::Out, at_.rank) &&
         call_.in < call_.out + bufferBytes(spec, Buffer::Out) &&
         call_.out < call_.in + bufferBytes(spec, Buffer::In);
}

void HostOperation::prepareEntry() {
  entrySent_.assign(at_.size, false);
  entryReceived_.assign(at_.size, false);
  entries_.assign(at_.size, {});
  entriesToSend_ = entriesToReceive_ = at_.size - 1;
  mapped_ = attached_ = true;
  const plan::PlanSpec& spec = plans_.mapped->spec();
  EntryRecord& own = entries_[at_.rank];
  if (spec.inPlaceSafe || !isInPlace(spec)) own = {placeOf(Buffer::In), placeOf(Buffer::Out)};
  note(own);
}

WindowPlace HostOperation::placeOf(Buffer buffer) const {
  const plan::PlanSpec& spec = plans_.mapped->spec();
  const bool isRead = isTouched(plans_.attached, buffer);
  if (!isRead && !isTouched(plans_.mapped, buffer)) return {WindowPlace::kUnused, 0};
  if (!plan::isGiven(spec, buffer, at_.rank)) return {WindowPlace::kUnused, 0};
  const std::byte* const data = buffer == Buffer::In ? call_.in : call_.out;
  const uint64_t bytes = bufferBytes(spec, buffer);
  const WindowPlace place = at_.windows->locate(data, bytes);
  if (place.window == WindowPlace::kNone && isRead && at_.endpoint->isReadableByPeers(data, bytes))
    return {WindowPlace::kMemory, reinterpret_cast<uintptr_t>(data)};
  return place;
}

void HostOperation::note(const EntryRecord& entry) {
  mapped_ = mapped_ && allows(entry, plans_.mapped);
  attached_ = attached_ && allows(entry, plans_.attached);
}

void HostOperation::start(const PreparedPlan& prepared, const ShortProgram* stopped) {
  const auto& plan = static_cast<const HostPlan&>(prepared);
  active_ = &plan;
  streaming_ = tuner_.choose(userBytes_, plan.spec().protocol);
  storeNs_ = 0;
  holders_ =
      userBytes_ >= ZeroCopySends::kLeastBytes ? plan.holders(isInPlace(plan.spec())) : nullptr;
  zeroCopySends_.forget();
  reads_.begin(at_.endpoint);
  if (at_.endpoint) {
    const auto slots = static_cast<int>(at_.endpoint->layout().slotCount);
    TUTTI_ASSERT(plan.spec().minSlots <= slots, "a plan for channels of ", plan.spec().minSlots,
                 " slots on channels of ", slots);
  }
  const size_t slotBytes = at_.endpoint ? at_.endpoint->layout().slotBytes : SIZE_MAX / 2;
  shape_ = call_.shape(plan.spec(), at_.rank, slotBytes);
  lanes_.assign(plan.program().lanes.size(), {});
  lanesLeft_ = 0;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = plan.program().lanes[i];
    TUTTI_ASSERT(!at_.endpoint || lane.channel < at_.endpoint->layout().channels,
                 "a lane on channel ", lane.channel, " of ", at_.endpoint->layout().channels);
    if (stopped) lanes_[i].step = stopped->stepsDone(i);
    lanesLeft_ += lanes_[i].step < lane.steps.size() ? 1 : 0;
  }
  if (scratch_.size() < shape_->scratchBytes()) scratch_.resize(shape_->scratchBytes());
  if (stopped) std::ranges::copy(stopped->scratch(), scratch_.begin());
}

bool HostOperation::enter() {
  bool moved = false;
  for (int offset = 1; offset < at_.size; ++offset) {
    const int to = (at_.rank + offset) % at_.size;
    if (entrySent_[to]) continue;
    auto& ring = sendRing(to, entryChannel());
    if (!ring.ready()) {
      waitingFor_ = to;
      continue;
    }
    std::memcpy(ring.payload(sizeof(EntryRecord)), &entries_[at_.rank], sizeof(EntryRecord));
    ring.publish(call_.callHash, call_.operation, sizeof(EntryRecord));
    entrySent_[to] = true;
    --entriesToSend_;
    moved = true;
  }
  for (int offset = 1; offset < at_.size; ++offset) {
    const int from = (at_.rank + at_.size - offset) % at_.size;
    if (entryReceived_[from]) continue;
    auto& ring = receiveRing(from, entryChannel());
    if (!ring.ready()) {
      waitingFor_ = from;
      continue;
    }
    checkHeader(from, *ring.slot(), sizeof(EntryRecord));
    std::memcpy(&entries_[from], ring.payload(), sizeof(EntryRecord));
    ring.release();
    entryReceived_[from] = true;
    note(entries_[from]);
    --entriesToReceive_;
    moved = true;
  }
  return moved;
}

// A rank gives a window back in the middle of an operation when the operation has failed there. The
// failure is on its way to this rank, which waits for it.
bool HostOperation::startUnstaged(const PreparedPlan& plan) {
  bool found = true;
  const auto resolve = [&](int peer, Buffer buffer) -> std::shared_ptr<std::byte> {
    if (!isTouched(&plan, buffer) || peer == at_.rank) return nullptr;
    const WindowPlace& place = buffer == Buffer::In ? entries_[peer].in : entries_[peer].out;
    if (place.window == WindowPlace::kUnused || place.window == WindowPlace::kMemory)
      return nullptr;
    const uint64_t bytes = call_.blocks ? 0 : bufferBytes(plan.spec(), buffer);
    auto data = at_.windows->resolve(peer, place, bytes);
    if (!data) {
      waitingFor_ = peer;
      found = false;
    }
    return data;
  };
  peerIn_.clear();
  peerOut_.clear();
  for (int peer = 0; peer < at_.size; ++peer) {
    peerIn_.push_back(resolve(peer, Buffer::In));
    peerOut_.push_back(resolve(peer, Buffer::Out));
  }
  if (found) start(plan);
  return found;
}

// All ranks choose alike: one record that refuses is seen by all of them. Who has seen enough that
// both ways are refused, its own included, need not wait for the others.
bool HostOperation::choose() {
  if (entriesToSend_ > 0) return false;
  if (!mapped_ && !attached_) {
    start(*plans_.staged);
    return true;
  }
  return entriesToReceive_ == 0 && startUnstaged(mapped_ ? *plans_.mapped : *plans_.attached);
}

bool HostOperation::combinesHere() const {
  for (const Combining* c = Combining::innermost; c; c = c->outer)
    if (&c->operation == this) return true;
  return false;
}

Poll HostOperation::poll() {
  bool moved = entriesToSend_ + entriesToReceive_ > 0 && enter();
  if (!active_ && !choose()) return moved ? Poll::Moved : Poll::Idle;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) moved |= runLane(lane);
  if (lanesLeft_ == 0) {
    if (at_.endpoint) at_.endpoint->flush();
    if (entriesToReceive_ > 0 || !mappedCounts()) return moved ? Poll::Moved : Poll::Idle;
    if (!zeroCopySends_.completed()) {
      waitingFor_ = zeroCopySends_.peer();
      return moved ? Poll::Moved : Poll::Idle;
    }
    tuner_.report(storeNs_);
    if (plans_.mapped && plans_.mappedBufferPolicy) plans_.mappedBufferPolicy->found(mapped_);
    peerIn_.clear();
    peerOut_.clear();
    return Poll::Done;
  }
  return moved ? Poll::Moved : Poll::Idle;
}

bool HostOperation::runLane(size_t index) {
  const Lane& lane = active_->program().lanes[index];
  LaneState& state = lanes_[index];
  if (state.step == lane.steps.size()) return false;  // done, or empty
  const Step& step = lane.steps[state.step];
  if (!dependenciesDone(step, state) || !channelsReady(lane, step, state)) return false;
  holder_ = holders_ ? holderOf(step, index, state) : nullptr;
  if (execute(lane, step, state)) {
    advance(lane, state);
  } else if (reads_.waitingFor() >= 0) {
    waitingFor_ = reads_.waitingFor();
    return false;
  }
  return true;
}

bool HostOperation::dependenciesDone(const Step& step, const LaneState& state) const {
  return std::all_of(step.after.begin(), step.after.end(), [&](const plan::Dependency& d) {
    const LaneState& other = lanes_[d.lane];
    return other.round > state.round || (other.round == state.round && other.step > d.step);
  });
}

bool HostOperation::channelsReady(const Lane& lane, const Step& step, const LaneState& state) {
  for (const Port& port : step.sources) {
    if (port.kind != Port::Kind::Channel) continue;
    auto& ring = receiveRing(port.rank, lane.channel);
    const bool behindEntry =
        entriesToReceive_ > 0 && lane.channel == entryChannel() && !entryReceived_[port.rank];
    if (behindEntry || !ring.ready()) {
      if (!behindEntry && ring.canPlace()) expectPayload(lane, step, state, port, ring);
      waitingFor_ = port.rank;
      return false;
    }
    checkHeader(port.rank, *ring.slot(), messageBytes(port, state.round));
  }
  for (const Port& port : step.targets) {
    if (port.kind != Port::Kind::Channel) continue;
    if (!sendRing(port.rank, lane.channel).ready()) {
      waitingFor_ = port.rank;
      return false;
    }
  }
  return true;
}

// Where the step's message lies in one piece in the user's memory, or will when the step is done;
// null where it has to be put into slots.
const std::byte* HostOperation::holderOf(const Step& step, size_t lane,
                                         const LaneState& state) const {
  const auto& port = (*holders_)[lane][state.step];
  if (!port || messageBytes(*port, state.round) < ZeroCopySends::kLeastBytes) return nullptr;
  const bool isSource = std::ranges::find(step.targets, *port) == step.targets.end();
  const bool scaled =
      call_.facts.op == ReduceOp::PreMulSum && plan::isReduction(active_->spec().collective);
  if (isSource && scaled) return nullptr;
  return wholeOf(*port, state.round);
}

std::byte* HostOperation::wholeOf(const Port& port, int64_t round) const {
  const plan::Extent first = shape_->extent(port.buffer, port.chunk, round);
  uint64_t end = first.offset + first.bytes;
  for (uint32_t i = 1; i < port.chunks; ++i) {
    const plan::Extent extent = shape_->extent(port.buffer, port.chunk + i, round);
    if (extent.bytes > 0 && extent.offset != end) return nullptr;
    end += extent.bytes;
  }
  return base(port) + first.offset;
}

void HostOperation::expectPayload(const Lane& lane, const Step& step, const LaneState& state,
                                  const Port& awaited, transports::ReceiveRing& ring) {
  if (step.completes && call_.facts.op == ReduceOp::Avg) return;
  const Port *source = nullptr, *target = nullptr;
  for (const Port& port : step.sources) {
    if (port.chunks == 0) continue;
    if (source || port.kind != Port::Kind::Channel) return;
    source = &port;
  }
  const auto index = static_cast<size_t>(&lane - active_->program().lanes.data());
  holder_ = holders_ ? holderOf(step, index, state) : nullptr;
  for (const Port& port : step.targets) {
    if (port.chunks == 0 || isZeroCopy(lane, port)) continue;
    if (target || port.kind == Port::Kind::Channel) return;
    target = &port;
  }
  if (source != &awaited || !target) return;
  const uint64_t bytes = messageBytes(*source, state.round);
  if (bytes < ZeroCopySends::kLeastBytes) return;
  if (std::byte* const at = wholeOf(*target, state.round))
    ring.expect(at, static_cast<uint32_t>(bytes), call_.callHash, call_.operation);
}

bool HostOperation::isZeroCopy(const Lane& lane, const Port& port) {
  return holder_ && port.kind == Port::Kind::Channel && port.chunks > 0 &&
         sendRing(port.rank, lane.channel).canZeroCopy();
}

uint64_t HostOperation::messageBytes(const Port& port, int64_t round) const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < port.chunks; ++i) bytes += shape_->chunkBytes(port, i, round);
  return bytes;
}

void HostOperation::checkHeader(int peer, const SlotHeader& header, uint64_t expectedBytes) const {
  if ((header.callHash & base::kExchangeBit) != 0)
    base::fail(ErrorCode::Mismatch, "ranks disagree: rank ", at_.rank,
               " is in a collective, and rank ", peer, " sends ",
               base::describeTransfer(base::transferKey(header.callHash, header.operation)),
               ", which are to be received");
  if (header.callHash != call_.callHash || header.operation != call_.operation)
    throw MismatchSeen{peer, header.callHash, header.operation, header.bytes};
  TUTTI_ASSERT(header.bytes == expectedBytes, "rank ", at_.rank, " got ", header.bytes,
               " bytes from rank ", peer, " where its plan expects ", expectedBytes);
}

std::byte* HostOperation::base(const Port& port) const {
  if (port.kind == Port::Kind::Mapped && port.rank != at_.rank)
    return port.buffer == Buffer::In ? peerIn_[port.rank].get() : peerOut_[port.rank].get();
  switch (port.buffer) {
    case Buffer::In: return const_cast<std::byte*>(call_.in);
    case Buffer::Out: return call_.out;
    case Buffer::Scratch: return const_cast<std::byte*>(scratch_.data());
  }
  return nullptr;
}

// Where byte `offset` of the message or of chunk `piece.chunk` lies for one port.
std::byte* HostOperation::address(const Lane& lane, const Port& port, const Piece& piece,
                                  bool asTarget) {
  if (port.kind == Port::Kind::Channel) {
    std::byte* payload = asTarget ? sendRing(port.rank, lane.channel).payload(piece.messageBytes)
                                  : receiveRing(port.rank, lane.channel).payload();
    return payload + piece.chunkStart + piece.offset;
  }
  const plan::Extent extent = shape_->extent(port.buffer, port.chunk + piece.chunk, piece.round);
  return base(port) + extent.offset + piece.offset;
}

/// In memory of a peer that is not mapped here.
bool HostOperation::isRead(const Port& port) const {
  return port.kind == Port::Kind::Mapped && !base(port);
}

uint64_t HostOperation::readsOf(const Step& step) const {
  return static_cast<uint64_t>(
      std::ranges::count_if(step.sources, [this](const Port& port) { return isRead(port); }));
}

/// Whether the piece of each source of the step has an address now: those in other ranks' memory
/// have been read, one that is alone to where it belongs.
bool HostOperation::gather(const Lane& lane, const Step& step, const Piece& piece) {
  const auto hasChunks = [](const Port& port) { return port.chunks > 0; };
  const bool isAlone = std::ranges::count_if(step.sources, hasChunks) == 1;
  std::byte* room =
      isAlone ? static_cast<std::byte*>(targets_[0]) : reads_.room(readsOf(step) * piece.bytes);
  sources_.clear();
  for (const Port& port : step.sources) {
    if (port.chunks == 0) continue;
    if (!isRead(port)) {
      sources_.push_back(address(lane, port, piece, false));
      continue;
    }
    const plan::Extent extent = shape_->extent(port.buffer, port.chunk + piece.chunk, piece.round);
    const EntryRecord& its = entries_[port.rank];
    const WindowPlace& place = port.buffer == Buffer::In ? its.in : its.out;
    if (!reads_.read(port.rank, place.offset + extent.offset + piece.offset, room, piece.bytes))
      return false;
    sources_.push_back(room);
    room += piece.bytes;
  }
  return true;
}

/// False when a peer's memory cannot be read now.
bool HostOperation::foldPiece(const Lane& lane, const Step& step, const Piece& piece) {
  const bool contributes = plan::isReduction(active_->spec().collective);
  const bool premultiplies = contributes && call_.facts.op == ReduceOp::PreMulSum;
  targets_.clear();
  premultiply_.clear();
  bool toUser = userBytes_ >= StreamingTuner::kLeastBytes;
  for (const Port& port : step.targets) {
    if (port.chunks == 0) continue;
    if (!isZeroCopy(lane, port)) targets_.push_back(address(lane, port, piece, true));
    toUser &= port.kind != Port::Kind::Channel && port.buffer == Buffer::Out;
  }
  if (targets_.empty()) return true;
  if (!gather(lane, step, piece)) return false;
  for (const Port& port : step.sources) {
    const bool input = port.kind == Port::Kind::Local && port.buffer == Buffer::In;
    if (port.chunks > 0 && premultiplies) premultiply_.push_back(input ? call_.scalar : 1.0);
  }
  const bool isThere = sources_.size() == 1 && targets_.size() == 1 && sources_[0] == targets_[0];
  const bool divides = step.completes && call_.facts.op == ReduceOp::Avg;
  const bool scales = std::ranges::any_of(premultiply_, [](double scalar) { return scalar != 1; });
  if (isThere && !divides && !scales) return true;  // it was received there
  const uint64_t count = piece.bytes / sizeOf(call_.facts.type);
  if (call_.reduction && sources_.size() > 1) {
    const bool tree = call_.facts.deterministic && step.fold == Fold::Canonical;
    const auto combine = [this](const void* in, void* inout, size_t n) {
      const Combining here(*this);
      combineBy(call_.reduction, in, inout, n);
    };
    numbers::foldBy(combine, sizeOf(call_.facts.type), tree, sources_, targets_, count);
    return true;
  }
  const auto begin = toUser ? std::chrono::steady_clock::now() : Time();
  numbers::fold({.type = call_.facts.type,
                 .op = call_.facts.op,
                 .order = foldOrder(step, call_.facts.type, call_.facts.deterministic),
                 .sources = sources_,
                 .targets = targets_,
                 .count = count,
                 .premultiply = premultiply_,
                 .divideBy = divides ? at_.size : 1,
                 .streaming = toUser && streaming_});
  if (toUser) storeNs_ += static_cast<uint64_t>((std::chrono::steady_clock::now() - begin).count());
  return true;
}

/// Of one foldPiece().
uint64_t HostOperation::mostPieceBytes(const Step& step) const {
  const uint64_t reads = readsOf(step);
  return reads > 0 ? AttachedReads::pieceBytes(reads, step.sources.size() > 1) : kPieceBytes;
}

// Folds all of a step that has channels (its message fits a slot), or the next piece of one that
// has none. Returns true when the step's data are complete. No piece is folded twice, as it may be
// in place.
bool HostOperation::foldData(const Lane& lane, const Step& step, LaneState& state) {
  const auto port = std::find_if(step.targets.begin(), step.targets.end(),
                                 [](const Port& p) { return p.chunks > 0; });
  if (port == step.targets.end()) return true;
  const bool channels = hasChannel(step.sources) || hasChannel(step.targets);
  const uint64_t total = messageBytes(*port, state.round);
  const uint64_t begin = state.pieceOffset;
  const uint64_t most = mostPieceBytes(step);
  const uint64_t end = channels ? total : std::min(total, begin + most);
  uint64_t chunkStart = 0;
  for (uint32_t i = 0; i < port->chunks && chunkStart < end; ++i) {
    const uint64_t chunkEnd = chunkStart + shape_->chunkBytes(*port, i, state.round);
    const uint64_t to = std::min(end, chunkEnd);
    for (uint64_t from = std::max(begin, chunkStart); from < to; from = state.pieceOffset) {
      const uint64_t bytes = std::min(to - from, most);
      if (!foldPiece(lane, step,
                     {.chunk = i,
                      .round = state.round,
                      .messageBytes = total,
                      .chunkStart = chunkStart,
                      .offset = from - chunkStart,
                      .bytes = bytes}))
        return false;
      state.pieceOffset = from + bytes;
    }
    chunkStart = chunkEnd;
  }
  return end == total;
}

bool HostOperation::execute(const Lane& lane, const Step& step, LaneState& state) {
  if (!foldData(lane, step, state)) return false;
  for (const Port& port : step.targets) {
    if (port.kind != Port::Kind::Channel) continue;
    const auto bytes = static_cast<uint32_t>(messageBytes(port, state.round));
    auto& ring = sendRing(port.rank, lane.channel);
    if (isZeroCopy(lane, port))
      zeroCopySends_.publishZeroCopy(port.rank, ring, holder_, call_.callHash, call_.operation,
                                     bytes);
    else
      ring.publish(call_.callHash, call_.operation, bytes);
  }
  for (const Port& port : step.sources) {
    if (port.kind != Port::Kind::Channel) continue;
    auto& ring = receiveRing(port.rank, lane.channel);
    bytesReceived_ += ring.slot()->bytes;
    ring.release();
  }
  return true;
}

void HostOperation::advance(const Lane& lane, LaneState& state) {
  state.pieceOffset = 0;
  if (++state.step < lane.steps.size()) return;
  if (state.round + 1 < shape_->rounds()) {
    state.step = 0;
    ++state.round;
  } else {
    --lanesLeft_;
  }
}

}  // namespace tutti::executor
