#include "src/plan/machine.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/plan/text.h"

namespace tutti::plan {
namespace {

bool needsClocks(const PlanSpec& spec, const FlatPlan& flat) {
  if (spec.mapped.any() || spec.collective == Collective::Barrier) return true;
  for (size_t rank = 0; rank + 1 < flat.firstLane.size(); ++rank)
    if (flat.firstLane[rank + 1] - flat.firstLane[rank] > 1) return true;
  return false;
}

}  // namespace

SymbolicMachine::SymbolicMachine(const PlanSpec& spec, const std::vector<Program>& programs,
                                 const FlatPlan& flat, Expressions& expressions, int rounds,
                                 bool inPlace)
    : spec_(spec),
      programs_(programs),
      flat_(flat),
      expressions_(expressions),
      rounds_(rounds),
      inPlace_(inPlace),
      racy_(needsClocks(spec, flat)),
      wires_(flat.edges.size()),
      lanes_(flat.lanes.size()) {
  layOut();
  if (racy_) races_.emplace(flat.lanes.size(), places_.size());
  const bool named = !flat.afterSteps.empty();
  awaited_.assign(static_cast<size_t>(rounds),
                  std::vector<Races::Snapshot>(named ? flat.steps.size() : 0, Races::kNoSnapshot));
  awaitedDepth_.assign(static_cast<size_t>(rounds),
                       std::vector<int>(named ? flat.steps.size() : 0, 0));
}

std::optional<CheckError> SymbolicMachine::run() {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (flat_.lanes[lane].stepCount == 0) lanes_[lane].round = rounds_;
    ready_.push_back(lane);
  }
  while (!ready_.empty() && !error_) {
    const uint32_t lane = ready_.back();
    ready_.pop_back();
    while (!error_ && advance(lane)) {
    }
  }
  if (!error_) error_ = deadlock();
  if (!error_) judge();
  if (!error_ && rounds_ == 1) measure();
  return error_;
}

/// One step of `lane` if it can run now. Otherwise the lane is noted where it waits.
bool SymbolicMachine::advance(uint32_t lane) {
  const LaneState& state = lanes_[lane];
  if (state.round == rounds_) return false;
  const uint32_t step = flat_.lanes[lane].firstStep + state.next;
  if (blocked(lane, step)) return false;
  fire(lane, step);
  finishStep(lane);
  return true;
}

bool SymbolicMachine::isDone(uint32_t step, int round) const {
  const uint32_t lane = flat_.steps[step].lane;
  const LaneState& state = lanes_[lane];
  return state.round > round ||
         (state.round == round && state.next > step - flat_.lanes[lane].firstStep);
}

bool SymbolicMachine::blocked(uint32_t lane, uint32_t step) {
  const FlatStep& s = flat_.steps[step];
  for (uint32_t i = 0; i < s.afterCount; ++i) {
    const uint32_t awaited = flat_.afterSteps[s.after + i];
    if (isDone(awaited, lanes_[lane].round)) continue;
    lanes_[flat_.steps[awaited].lane].waiting.push_back(lane);
    return true;
  }
  for (const FlatPort& port : flat_.sources(s))
    if (port.kind == Port::Kind::Channel && wires_[port.edge].queue.empty()) {
      wires_[port.edge].waitingReceiver = lane;
      return true;
    }
  const auto slots = static_cast<size_t>(spec_.minSlots);
  for (const FlatPort& port : flat_.targets(s))
    if (port.kind == Port::Kind::Channel && wires_[port.edge].queue.size() >= slots) {
      wires_[port.edge].waitingSender = lane;
      return true;
    }
  return false;
}

void SymbolicMachine::wake(uint32_t& lane) {
  if (lane != kNone) ready_.push_back(lane);
  lane = kNone;
}

void SymbolicMachine::fire(uint32_t lane, uint32_t step) {
  const FlatStep& s = flat_.steps[step];
  LaneState& state = lanes_[lane];
  ++stamp_;
  depth_ = state.depth;
  for (uint32_t i = 0; i < s.afterCount; ++i) {
    const uint32_t awaited = flat_.afterSteps[s.after + i];
    const auto round = static_cast<size_t>(state.round);
    depth_ = std::max(depth_, awaitedDepth_[round][awaited]);
    if (races_) races_->acquire(lane, awaited_[round][awaited]);
  }
  if (operands_.size() < s.sources) operands_.resize(s.sources);
  size_t count = 0;
  for (const FlatPort& port : flat_.sources(s)) {
    operands_[count].clear();
    if (port.kind != Port::Kind::Channel) {
      ++count;
      continue;
    }
    Message& message = wires_[port.edge].queue.front();
    operands_[count++].swap(message.values);
    depth_ = std::max(depth_, message.depth);
    if (races_) {
      races_->acquire(lane, message.snapshot);
      races_->release(message.snapshot);
    }
    wires_[port.edge].queue.pop_front();
    wake(wires_[port.edge].waitingSender);
  }
  if (races_) races_->advance(lane);
  for (size_t i = 0; i < s.sources; ++i) readPort(flat_.sources(s)[i], lane, step);
  if (error_) return;
  compute(step);
  state.depth = depth_;
  uint32_t messages = 0;
  for (const FlatPort& port : flat_.targets(s)) messages += port.kind == Port::Kind::Channel;
  for (const FlatPort& port : flat_.targets(s))
    if (port.kind != Port::Kind::Channel && !error_) writePlaces(port, lane, step);
  const auto snapshot = races_ ? races_->snapshot(lane, messages + s.awaited) : Races::kNoSnapshot;
  for (const FlatPort& port : flat_.targets(s)) {
    if (port.kind != Port::Kind::Channel) continue;
    Message message{{}, snapshot, depth_ + 1};
    if (port.chunks > 0) message.values = results_;
    wires_[port.edge].queue.push_back(std::move(message));
    wake(wires_[port.edge].waitingReceiver);
  }
  if (s.awaited) {
    awaited_[static_cast<size_t>(state.round)][step] = snapshot;
    awaitedDepth_[static_cast<size_t>(state.round)][step] = depth_;
  }
}

void SymbolicMachine::finishStep(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (++state.next == flat_.lanes[lane].stepCount) {
    state.next = 0;
    ++state.round;
  }
  ready_.insert(ready_.end(), state.waiting.begin(), state.waiting.end());
  state.waiting.clear();
}

SymbolicMachine::Blocker SymbolicMachine::blockerOf(uint32_t lane) const {
  const uint32_t step = flat_.lanes[lane].firstStep + lanes_[lane].next;
  const FlatStep& s = flat_.steps[step];
  for (uint32_t i = 0; i < s.afterCount; ++i) {
    const uint32_t awaited = flat_.afterSteps[s.after + i];
    if (!isDone(awaited, lanes_[lane].round))
      return {flat_.steps[awaited].lane, " waits for " + name(awaited)};
  }
  for (const FlatPort& port : flat_.sources(s))
    if (port.kind == Port::Kind::Channel && wires_[port.edge].queue.empty())
      return {flat_.edges[port.edge].sender,
              base::message(" waits for a message from rank ", port.rank)};
  for (const FlatPort& port : flat_.targets(s))
    if (port.kind == Port::Kind::Channel &&
        wires_[port.edge].queue.size() >= static_cast<size_t>(spec_.minSlots))
      return {flat_.edges[port.edge].receiver,
              base::message(" waits for one of ", spec_.minSlots, " slots to rank ", port.rank)};
  return {lane, " waits for nothing"};
}

/// When nothing moves and a lane is not through: follows who waits for whom until one comes again.
std::optional<CheckError> SymbolicMachine::deadlock() const {
  const auto stuck = std::ranges::find_if(
      lanes_, [this](const LaneState& state) { return state.round < rounds_; });
  if (stuck == lanes_.end()) return {};
  auto lane = static_cast<uint32_t>(stuck - lanes_.begin());
  std::vector<uint32_t> path;
  while (std::ranges::find(path, lane) == path.end()) {
    path.push_back(lane);
    lane = blockerOf(lane).lane;
  }
  path.erase(path.begin(), std::ranges::find(path, lane));
  std::string text = "circular wait: ";
  for (uint32_t at : path) {
    const uint32_t step = flat_.lanes[at].firstStep + lanes_[at].next;
    text += name(step) + blockerOf(at).why + "; ";
  }
  const FlatLane& first = flat_.lanes[path.front()];
  return CheckError{first.rank, first.number, static_cast<int>(lanes_[path.front()].next),
                    text + base::message("and so on, in round ", lanes_[path.front()].round)};
}

void SymbolicMachine::measure() {
  const auto ranks = static_cast<size_t>(spec_.ranks);
  std::vector<uint64_t> sent(ranks, 0), flow(ranks * ranks, 0);
  for (const LaneState& state : lanes_) measured_.steps = std::max(measured_.steps, state.depth);
  for (const FlatStep& s : flat_.steps) {
    const auto rank = static_cast<size_t>(flat_.lanes[s.lane].rank);
    for (const FlatPort& port : flat_.targets(s))
      if (port.rank != static_cast<int>(rank)) {
        sent[rank] += port.chunks;
        flow[rank * ranks + static_cast<size_t>(port.rank)] += port.chunks;
      }
    for (const FlatPort& port : flat_.sources(s))
      if (port.kind == Port::Kind::Mapped) {
        sent[rank] += port.chunks;
        flow[static_cast<size_t>(port.rank) * ranks + rank] += port.chunks;
      }
  }
  const double divisions = spec_.divisions;
  measured_.blocksSent = static_cast<double>(*std::ranges::max_element(sent)) / divisions;
  measured_.linkBlocks = static_cast<double>(*std::ranges::max_element(flow)) / divisions;
  if (spec_.hosts.empty()) return;
  std::vector<uint64_t> leaves(ranks, 0), comes(ranks, 0);  // by host, of which there are fewer
  for (size_t from = 0; from < ranks; ++from)
    for (size_t to = 0; to < ranks; ++to) {
      if (spec_.hosts[from] == spec_.hosts[to]) continue;
      leaves[static_cast<size_t>(spec_.hosts[from])] += flow[from * ranks + to];
      comes[static_cast<size_t>(spec_.hosts[to])] += flow[from * ranks + to];
    }
  const uint64_t most = std::max(std::ranges::max(leaves), std::ranges::max(comes));
  measured_.hostBlocks = static_cast<double>(most) / divisions;
}

std::string SymbolicMachine::name(uint32_t step) const {
  const FlatLane& lane = flat_.lanes[flat_.steps[step].lane];
  return errorAt(programs_[static_cast<size_t>(lane.rank)], lane.rank, lane.number,
                 static_cast<int>(step - lane.firstStep), "")
      .message;
}

void SymbolicMachine::refuse(uint32_t step, const std::string& what) {
  if (error_) return;
  const FlatLane& lane = flat_.lanes[flat_.steps[step].lane];
  error_ = errorAt(programs_[static_cast<size_t>(lane.rank)], lane.rank, lane.number,
                   static_cast<int>(step - lane.firstStep), what);
}

}  // namespace tutti::plan
