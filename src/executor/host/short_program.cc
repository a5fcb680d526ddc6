#include "src/executor/host/short_program.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/executor/host/fold_order.h"

namespace tutti::executor {

using plan::Buffer;
using plan::Port;

namespace {

/// Bytes that a port stands for.
uint64_t bytesOf(const Port& port, const plan::PlanShape& shape) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < port.chunks; ++i) bytes += shape.chunkBytes(port, i, 0);
  return bytes;
}

/// Where its chunks lie one behind the other: the first byte; nothing where they do not.
std::optional<uint64_t> startOf(const Port& port, const plan::PlanShape& shape) {
  const plan::Extent first = shape.extent(port.buffer, port.chunk, 0);
  uint64_t end = first.offset + first.bytes;
  for (uint32_t i = 1; i < port.chunks; ++i) {
    const plan::Extent next = shape.extent(port.buffer, port.chunk + i, 0);
    if (next.bytes > 0 && next.offset != end) return std::nullopt;
    end += next.bytes;
  }
  return first.offset;
}

}  // namespace

std::unique_ptr<ShortProgram> ShortProgram::make(const HostPlan& plan, const CallFacts& facts,
                                                 const HostRank& at) {
  const plan::PlanSpec& spec = plan.spec();
  const bool scales = facts.op == ReduceOp::PreMulSum && plan::isReduction(spec.collective);
  if (!at.endpoint || spec.mapped.any() || !spec.inPlaceSafe || scales || facts.blocksHash != 0 ||
      facts.reduction[0] != 0 || facts.count > plan::kMostShortBytes)
    return nullptr;
  const CollectiveCall call{.facts = facts};
  if (call.bufferBytes(spec) > plan::kMostShortBytes) return nullptr;
  const plan::PlanShape shape = call.shape(spec, at.rank, at.endpoint->layout().slotBytes);
  if (shape.rounds() != 1) return nullptr;
  std::unique_ptr<ShortProgram> made(new ShortProgram(plan, facts));
  made->scratch_.resize(shape.scratchBytes());
  for (const plan::Lane& lane : plan.program().lanes)
    if (!made->add(lane, shape, at)) return nullptr;
  return made;
}

bool ShortProgram::add(const plan::Lane& lane, const plan::PlanShape& shape, const HostRank& at) {
  ShortLane& made = lanes_.emplace_back();
  for (const plan::Step& step : lane.steps) {
    ShortStep& its = made.steps.emplace_back();
    its.after = step.after;
    its.order = foldOrder(step, facts_.type, facts_.deterministic);
    if (step.completes && facts_.op == ReduceOp::Avg) its.divideBy = at.size;
    for (const Port& port : step.targets) its.bytes = std::max(its.bytes, bytesOf(port, shape));
    for (const Port& port : step.sources)
      if (!addPort(port, false, lane.channel, shape, at, its)) return false;
    for (const Port& port : step.targets)
      if (!addPort(port, true, lane.channel, shape, at, its)) return false;
    for (const Receive& receive : its.receives) bytesReceived_ += receive.bytes;
  }
  return true;
}

bool ShortProgram::addPort(const Port& port, bool isTarget, int channel,
                           const plan::PlanShape& shape, const HostRank& at, ShortStep& made) {
  const auto bytes = static_cast<uint32_t>(bytesOf(port, shape));
  Place place{port.kind, port.buffer, 0, 0};
  if (port.kind == Port::Kind::Channel) {
    if (!at.endpoint->isMemory(port.rank)) return false;
    if (isTarget) {
      place.message = made.sends.size();
      made.sends.push_back(&at.endpoint->sendRing(port.rank, channel));
      made.sendBytes.push_back(bytes);
    } else {
      place.message = made.receives.size();
      made.receives.push_back({&at.endpoint->receiveRing(port.rank, channel), bytes});
    }
  } else {
    const auto start = startOf(port, shape);
    if (!start) return false;
    place.offset = *start;
  }
  if (port.chunks == 0) return true;
  if (bytes != made.bytes) return false;
  (isTarget ? made.targets : made.sources).push_back(place);
  return true;
}

bool ShortProgram::run(const std::byte* in, std::byte* out, uint32_t operation,
                       Patience& patience) {
  while (true) {
    bool moved = false, isDone = true;
    for (ShortLane& lane : lanes_) {
      while (lane.done < lane.steps.size() && isReady(lane.steps[lane.done], operation)) {
        execute(lane.steps[lane.done], in, out, operation);
        ++lane.done;
        moved = true;
      }
      isDone &= lane.done == lane.steps.size();
    }
    if (moved) patience.found();
    if (isDone) return true;
    if (!moved && !patience.wait()) return false;
  }
}

bool ShortProgram::isReady(const ShortStep& step, uint32_t operation) const {
  for (const Receive& receive : step.receives) {
    if (!receive.ring->ready()) return false;
    const transports::SlotHeader& header = *receive.ring->slot();
    if (header.callHash != callHash_ || header.operation != operation ||
        header.bytes != receive.bytes)
      return false;
  }
  return std::ranges::all_of(step.sends, [](const auto* ring) { return ring->ready(); }) &&
         std::ranges::all_of(step.after, [&](const plan::Dependency& other) {
           return lanes_[other.lane].done > other.step;
         });
}

void ShortProgram::execute(const ShortStep& step, const std::byte* in, std::byte* out,
                           uint32_t operation) {
  if (step.bytes > 0) fold(step, in, out);
  for (size_t i = 0; i < step.sends.size(); ++i)
    step.sends[i]->publish(callHash_, operation, step.sendBytes[i]);
  for (const Receive& receive : step.receives) receive.ring->release();
}

void ShortProgram::fold(const ShortStep& step, const std::byte* in, std::byte* out) {
  const auto local = [&](const Place& place) -> std::byte* {
    switch (place.buffer) {
      case Buffer::In: return const_cast<std::byte*>(in) + place.offset;
      case Buffer::Out: return out + place.offset;
      case Buffer::Scratch: return scratch_.data() + place.offset;
    }
    return nullptr;
  };
  const auto source = [&](const Place& place) -> const std::byte* {
    return place.kind == Port::Kind::Channel ? step.receives[place.message].ring->payload()
                                             : local(place);
  };
  const auto target = [&](const Place& place) -> std::byte* {
    return place.kind == Port::Kind::Channel ? step.sends[place.message]->payload(step.bytes)
                                             : local(place);
  };
  if (step.sources.size() == 1 && step.divideBy == 1) {
    const std::byte* const from = source(step.sources[0]);
    for (const Place& place : step.targets)
      if (std::byte* const to = target(place); to != from) std::memcpy(to, from, step.bytes);
    return;
  }
  if (step.targets.empty()) return;
  sources_.clear();
  targets_.clear();
  for (const Place& place : step.sources) sources_.push_back(source(place));
  for (const Place& place : step.targets) targets_.push_back(target(place));
  numbers::fold({.type = facts_.type,
                 .op = facts_.op,
                 .order = step.order,
                 .sources = sources_,
                 .targets = targets_,
                 .count = step.bytes / sizeOf(facts_.type),
                 .divideBy = step.divideBy});
}

}  // namespace tutti::executor
