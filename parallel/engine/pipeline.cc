#include "parallel/engine/pipeline.h"

#include <algorithm>
#include <cstring>

#include "parallel/nn/loss.h"
#include "parallel/pipeline/violations.h"
#include "parallel/store/reached.h"

namespace tutti::parallel {

namespace {

Schedule scheduleOf(const DeviceMesh& mesh, const PipelineOptions& options, int microBatches) {
  Schedule schedule = buildSchedule({.kind = options.schedule,
                                     .ranks = mesh.extent(Axis::Pipeline),
                                     .microBatches = microBatches,
                                     .chunks = options.chunks,
                                     .costs = options.costs});
  validate(schedule);
  return schedule;
}

void copyElements(const Tensor& from, const Tensor& to, const DeviceMesh& mesh) {
  ensure(from.contiguous() && from.shape == to.shape && from.type == to.type, from,
         " cannot be copied to ", to);
  if (mesh.dry() || from.bytes() == 0) return;
  if (mesh.stream())
    copy({to.data, from.data, from.bytes()}, mesh.stream());
  else
    std::memcpy(to.data, from.data, from.bytes());
}

}  // namespace

Pipeline::Pipeline(ParallelContext& context, Model& model, const PipelineOptions& options,
                   int microBatches, DType type)
    : context_(context),
      model_(model),
      rank_(context.mesh.index(Axis::Pipeline)),
      type_(type),
      schedule_(scheduleOf(context.mesh, options, microBatches)),
      stages_(cutIntoStages(model.unitCosts(), schedule_.stages(), options.layers)),
      between_("between stages", context.mesh.backing()),
      stream_(context.mesh.device()) {
  const auto slots = static_cast<size_t>(std::max(schedule_.slots(rank_), schedule_.chunks));
  for (size_t i = 0; i < slots; ++i) slots_.emplace_back(context.mesh.backing());
  results_.resize(slots);
}

std::vector<UnitPlace> Pipeline::places() const {
  std::vector<UnitPlace> places;
  for (int stage = 0; stage < schedule_.stages(); ++stage)
    places.resize(static_cast<size_t>(stages_[static_cast<size_t>(stage)].end),
                  {.rank = schedule_.rankOf(stage), .chunk = schedule_.chunkOf(stage)});
  return places;
}

UnitRange Pipeline::unitsOf(int chunk) const {
  return stages_[static_cast<size_t>(schedule_.stage(rank_, chunk))];
}

/// Whether the stage behind (1) or before (-1) a chunk's is one of this rank's.
bool Pipeline::nextIsHere(int chunk, int step) const {
  return schedule_.rankOf(schedule_.stage(rank_, chunk) + step) == rank_;
}

MeshMessage Pipeline::outputMessage(bool send, int peer, const Tensor& data) const {
  constexpr Purpose purpose = Purpose::StageOutput;
  return send ? MeshMessage::to(peer, purpose, data) : MeshMessage::from(peer, purpose, data);
}

MeshMessage Pipeline::gradientMessage(bool send, int peer, const Tensor& data) const {
  constexpr Purpose purpose = Purpose::StageGradient;
  return send ? MeshMessage::to(peer, purpose, data) : MeshMessage::from(peer, purpose, data);
}

void Pipeline::run(const Step& step) {
  nextGroup_ = 0;
  outgoingGroup_ = {-1, -1};
  for (std::span<const Action> rest = schedule_.byRank[static_cast<size_t>(rank_)];
       !rest.empty();) {
    const size_t together = groupSize(rest);
    if (together > 0) {
      transfer(rest.first(together), step);
    } else {
      compute(rest[0], step);
    }
    rest = rest.subspan(std::max<size_t>(together, 1));
  }
  if (nextGroup_ > 0) waitFor(nextGroup_ - 1, "send");
  for (Tensor& gradient : outgoing_) {
    if (gradient.data != nullptr) between_.give(gradient);
    gradient = {};
  }
  ensure(inputs_.empty() && gradients_.empty(), "messages between stages were left over");
}

void Pipeline::waitFor(int group, const char* name) {
  continueBehind(groups_[static_cast<size_t>(group)], stream_, context_.mesh, name,
                 Awaited::Pipeline);
}

/// All at the same time, while the rank goes on.
void Pipeline::transfer(std::span<const Action> group, const Step& step) {
  std::vector<MeshMessage> messages;
  for (const Action& action : group) messages.push_back(messageOf(action, step));
  {
    const Trace::OnStreamSpan span(context_.mesh.trace(), stream_, "send and receive",
                                   Trace::Lane::Stages);
    group_->exchange(messages, stream_);
  }
  if (static_cast<size_t>(nextGroup_) == groups_.size())
    groups_.emplace_back(context_.mesh.device());
  groups_[static_cast<size_t>(nextGroup_++)].record(stream_);
}

MeshMessage Pipeline::messageOf(const Action& action, const Step& step) {
  const int peer = transferOf(schedule_, rank_, action).peer;
  const bool output = action.kind == ActionKind::SendF || action.kind == ActionKind::RecvF;
  if (action.kind == ActionKind::SendB)
    outgoingGroup_[static_cast<size_t>(outgoings_ + 1) % 2] = nextGroup_;
  Tensor data = last_;
  if (action.receives()) {
    const Shape shape = model_.shapeBetween(context_, step.batch(action.microBatch).tokenIds.shape);
    data = between_.take(type_, shape.count()).view(shape);
    (output ? inputs_ : gradients_)[{action.chunk, action.microBatch}] = {data, nextGroup_, true};
  }
  return output ? outputMessage(action.sends(), peer, data)
                : gradientMessage(action.sends(), peer, data);
}

void Pipeline::compute(const Action& action, const Step& step) {
  const char* const name = action.kind == ActionKind::F   ? "forward"
                           : action.kind == ActionKind::B ? "backward"
                                                          : "weights";
  const Trace::Span span(context_.mesh.trace(), name, action.chunk, action.microBatch);
  switch (action.kind) {
    case ActionKind::F: return forward(action, step);
    case ActionKind::B: return backward(action);
    default: slots_[static_cast<size_t>(action.slot)].drain(context_); return finish(action);
  }
}

Tensor Pipeline::copyInto(Arena& arena, const Tensor& tensor) {
  const Tensor copy = arena.allocate(tensor.type, tensor.shape);
  copyElements(tensor, copy, context_.mesh);
  return copy;
}

/// From the host.
Tensor Pipeline::ofTokens(Arena& arena, const Tensor& tokenIds) {
  const Tensor here = arena.allocate(tokenIds.type, tokenIds.shape);
  context_.mesh.upload(tokenIds.data, here);
  return here;
}

/// What was received, or handed on by another stage of this rank.
Tensor Pipeline::takeWaiting(std::map<Key, Waiting>& from, const Action& action, Arena& arena) {
  const auto found = from.find({action.chunk, action.microBatch});
  ensure(found != from.end(), "rank ", rank_, " has nothing for ", action);
  const Waiting waiting = found->second;
  from.erase(found);
  if (waiting.group >= 0) waitFor(waiting.group, "receive");
  const Tensor copy = copyInto(arena, waiting.data);
  if (waiting.borrowed) between_.give(waiting.data);
  return copy;
}

void Pipeline::forward(const Action& action, const Step& step) {
  const int chunk = action.chunk, m = action.microBatch;
  ActivationStash& stash = slots_[static_cast<size_t>(action.slot)];
  const Batch batch = step.batch(m);
  beginTokens(context_, batch.tokenIds.shape, stash);
  stash.microBatch = m;
  stash.deferWeights = schedule_.splitsBackward;
  const Tensor x = first(chunk) ? ofTokens(stash.untilWeights, batch.tokenIds)
                                : takeWaiting(inputs_, action, stash.untilWeights);
  last_ = model_.forward(context_, unitsOf(chunk), x, stash);
  results_[static_cast<size_t>(action.slot)] = last_;
  if (last(chunk)) {
    context_.store.addLoss(crossEntropy(context_, {.logits = last_,
                                                   .labels = batch.labels,
                                                   .vocabulary = model_.vocabulary(),
                                                   .scale = step.perToken}),
                           m);
  } else if (nextIsHere(chunk, 1)) {
    inputs_[{chunk + 1, m}] = {.data = last_};
  }
}

void Pipeline::backward(const Action& action) {
  const int chunk = action.chunk;
  ActivationStash& stash = slots_[static_cast<size_t>(action.slot)];
  const Tensor dy = last(chunk) ? results_[static_cast<size_t>(action.slot)]
                                : takeWaiting(gradients_, action, stash.untilWeights);
  const Tensor dx = model_.backward(context_, unitsOf(chunk), dy, stash);
  if (!first(chunk) && nextIsHere(chunk, -1)) {
    const Tensor copy = between_.take(type_, dx.count()).view(dx.shape);
    copyElements(dx, copy, context_.mesh);
    gradients_[{chunk - 1, action.microBatch}] = {.data = copy, .borrowed = true};
  } else if (!first(chunk)) {
    last_ = outgoing(dx);
  }
  if (!schedule_.splitsBackward) finish(action);
}

/// A copy that stays until the one after the next is made: its slot may be taken before it is sent.
Tensor Pipeline::outgoing(const Tensor& dx) {
  const size_t at = static_cast<size_t>(outgoings_++) % 2;
  if (outgoingGroup_[at] >= 0) waitFor(outgoingGroup_[at], "send");
  if (outgoing_[at].data != nullptr) between_.give(outgoing_[at]);
  outgoing_[at] = between_.take(type_, dx.count()).view(dx.shape);
  copyElements(dx, outgoing_[at], context_.mesh);
  return outgoing_[at];
}

/// The slot is free.
void Pipeline::finish(const Action& action) {
  ActivationStash& stash = slots_[static_cast<size_t>(action.slot)];
  ensure(stash.ended() && stash.untilBackward.usedBytes() == 0, action, " left ",
         stash.untilBackward.usedBytes(), " bytes and work behind");
  stash.reset();
}

Tensor Pipeline::logits(const Tensor& tokenIds, KeyValues* before) {
  Tensor x;
  for (int stage = 0; stage < schedule_.stages(); ++stage) {
    if (schedule_.rankOf(stage) != rank_) continue;
    const int chunk = schedule_.chunkOf(stage);
    ActivationStash& stash = slots_[static_cast<size_t>(chunk)];
    stash.reset();
    beginTokens(context_, tokenIds.shape, stash);
    stash.before = before;
    if (first(chunk)) {
      x = context_.mesh.onDevice(tokenIds, stash.untilWeights);
    } else if (!nextIsHere(chunk, -1)) {
      x = stash.untilWeights.allocate(type_, model_.shapeBetween(context_, tokenIds.shape));
      group_->exchange(std::array{outputMessage(false, schedule_.rankOf(stage - 1), x)});
    }
    x = model_.forward(context_, unitsOf(chunk), x, stash);
    if (!last(chunk) && !nextIsHere(chunk, 1))
      group_->exchange(std::array{outputMessage(true, schedule_.rankOf(stage + 1), x)});
  }
  return hasLastStage() ? x : Tensor{};
}

void Pipeline::forget() {
  for (ActivationStash& stash : slots_) stash.reset();
}

namespace {

ArenaUse sumOf(const std::deque<ActivationStash>& slots, Arena ActivationStash::*arena) {
  ArenaUse sum;
  for (const ActivationStash& stash : slots) {
    const ArenaUse use = (stash.*arena).use();
    sum.peak += use.peak;
    sum.held += use.held;
  }
  return sum;
}

}  // namespace

ArenaUse Pipeline::untilBackward() const { return sumOf(slots_, &ActivationStash::untilBackward); }
ArenaUse Pipeline::untilWeights() const { return sumOf(slots_, &ActivationStash::untilWeights); }

size_t Pipeline::usedBytes() const {
  size_t total = 0;
  for (const ActivationStash& stash : slots_)
    total += stash.untilBackward.usedBytes() + stash.untilWeights.usedBytes();
  return total;
}

}  // namespace tutti::parallel
