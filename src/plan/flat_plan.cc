#include "src/plan/flat_plan.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/plan/step_rules.h"
#include "src/plan/text.h"

namespace tutti::plan {
namespace {

/// One end's view of a message.
struct EdgeEnd {
  uint32_t step;  // flat
  uint32_t chunk, chunks;
};

/// Numbers edges in the order in which they come. One table without nodes: there may be millions,
/// and each message looks its edge up.
class EdgeNumbers {
 public:
  /// The number of the edge with this key: `next` when it has not come before.
  uint32_t numberOf(uint64_t key, uint32_t next) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[placeOf(key)];
    if (slot.number != kNone) return slot.number;
    slot = {key, next};
    ++count_;
    return next;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t number = kNone;
  };

  /// Where it is, or would be. Multiplied by 2^64 over the golden ratio, of which the upper bits
  /// count (Knuth's hashing).
  size_t placeOf(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t place = (key * 0x9E3779B97F4A7C15) >> 32 & mask;
    while (slots_[place].number != kNone && slots_[place].key != key) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, {});
    slots_.resize(std::max<size_t>(64, 2 * before.size()));
    for (const Slot& slot : before)
      if (slot.number != kNone) slots_[placeOf(slot.key)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  size_t count_ = 0;
};

class Flattener {
 public:
  Flattener(const PlanSpec& spec, const Symmetry& symmetry, const std::vector<Program>& programs,
            FlatPlan& flat)
      : spec_(spec),
        symmetry_(symmetry),
        ranks_(symmetry.representatives()),
        programs_(programs),
        flat_(flat) {}

  std::optional<CheckError> run() {
    if (programs_.size() != ranks_.size())
      return CheckError{
          .message = base::message(programs_.size(), " programs for ", ranks_.size(), " ranks")};
    for (int rank : ranks_) {
      flat_.firstLane.push_back(static_cast<uint32_t>(flat_.lanes.size()));
      addRank(rank);
      if (error_) return error_;
    }
    flat_.firstLane.push_back(static_cast<uint32_t>(flat_.lanes.size()));
    tieDependencies();
    for (uint32_t edge = 0; edge < flat_.edges.size() && !error_; ++edge) compareEnds(edge);
    return error_;
  }

 private:
  void refuse(uint32_t step, const std::string& what) {
    if (error_) return;
    const FlatLane& lane = flat_.lanes[flat_.steps[step].lane];
    error_ = errorAt(programOf(lane.rank), lane.rank, lane.number,
                     static_cast<int>(step - lane.firstStep), what);
  }

  size_t indexOf(int rank) const {
    return static_cast<size_t>(std::ranges::lower_bound(ranks_, rank) - ranks_.begin());
  }
  const Program& programOf(int rank) const { return programs_[indexOf(rank)]; }

  void addRank(int rank) {
    const Program& program = programOf(rank);
    for (size_t number = 0; number < program.lanes.size() && !error_; ++number)
      addLane(rank, static_cast<int>(number), program.lanes[number]);
  }

  void addLane(int rank, int number, const Lane& lane) {
    flat_.lanes.push_back({rank, number, static_cast<uint32_t>(flat_.steps.size()),
                           static_cast<uint32_t>(lane.steps.size())});
    if (lane.channel < 0 || lane.channel >= spec_.channels)
      error_ = CheckError{rank, number, -1,
                          base::message("rank ", rank, ", lane ", number, ": channel ",
                                        lane.channel, " of ", spec_.channels)};
    for (const Step& step : lane.steps) {
      if (error_) return;
      addStep(rank, lane.channel, step);
    }
  }

  void addStep(int rank, int channelNumber, const Step& step) {
    const auto number = static_cast<uint32_t>(flat_.steps.size());
    flat_.steps.push_back(
        {static_cast<uint32_t>(flat_.lanes.size() - 1), static_cast<uint32_t>(flat_.ports.size()),
         static_cast<uint32_t>(step.sources.size()), static_cast<uint32_t>(step.targets.size()), 0,
         static_cast<uint32_t>(step.after.size()), step.fold, step.completes, false});
    if (std::string fault = faultOfStep(spec_, rank, step); !fault.empty())
      return refuse(number, fault);
    for (const Port& port : step.sources) addPort(port, rank, channelNumber, false);
    for (const Port& port : step.targets) addPort(port, rank, channelNumber, true);
  }

  void addPort(const Port& port, int rank, int channelNumber, bool target) {
    FlatPort flat{port.kind, port.buffer, port.rank, kNone, port.chunk, port.chunks};
    if (port.kind == Port::Kind::Local) flat.rank = rank;
    if (port.kind == Port::Kind::Channel) {
      flat.edge =
          target ? edgeOf(rank, port.rank, channelNumber) : edgeOf(port.rank, rank, channelNumber);
      tie(flat, target);
    }
    flat_.ports.push_back(flat);
  }

  uint32_t edgeOf(int from, int to, int channelNumber) {
    const int move = symmetry_.moveOf(to);
    from = symmetry_.moved(from, move);
    to = symmetry_.moved(to, move);
    const uint64_t key = (static_cast<uint64_t>(from) * static_cast<uint64_t>(spec_.ranks) +
                          static_cast<uint64_t>(to)) *
                             static_cast<uint64_t>(spec_.channels) +
                         static_cast<uint64_t>(channelNumber);
    const auto next = static_cast<uint32_t>(flat_.edges.size());
    const uint32_t number = edgeNumbers_.numberOf(key, next);
    if (number == next) {
      flat_.edges.push_back({from, to, channelNumber});
      sends_.emplace_back();
      receives_.emplace_back();
    }
    return number;
  }

  void tie(const FlatPort& port, bool target) {
    const auto step = static_cast<uint32_t>(flat_.steps.size() - 1);
    const uint32_t lane = flat_.steps[step].lane;
    Edge& edge = flat_.edges[port.edge];
    uint32_t& end = target ? edge.sender : edge.receiver;
    if (end != kNone && end != lane)
      refuse(step,
             base::message("lanes ", flat_.lanes[end].number, " and ", flat_.lanes[lane].number,
                           " both ", target ? "send" : "receive", " on channel ", edge.channel,
                           " from rank ", edge.from, " to rank ", edge.to));
    end = lane;
    (target ? sends_ : receives_)[port.edge].push_back({step, port.chunk, port.chunks});
  }

  void tieDependencies() {
    for (uint32_t number = 0; number < flat_.steps.size() && !error_; ++number) {
      FlatStep& step = flat_.steps[number];
      step.after = static_cast<uint32_t>(flat_.afterSteps.size());
      if (step.afterCount == 0) continue;
      const FlatLane& lane = flat_.lanes[step.lane];
      const Step& original = programOf(lane.rank)
                                 .lanes[static_cast<size_t>(lane.number)]
                                 .steps[number - lane.firstStep];
      for (const Dependency& d : original.after) tieDependency(number, lane.rank, d);
    }
  }

  void tieDependency(uint32_t number, int rank, const Dependency& d) {
    const size_t index = indexOf(rank);
    const uint32_t first = flat_.firstLane[index];
    const uint32_t lanes = flat_.firstLane[index + 1] - first;
    if (d.lane >= lanes || d.step >= flat_.lanes[first + d.lane].stepCount)
      return refuse(number, base::message("comes after step ", d.step, " of lane ", d.lane,
                                          ", which does not exist"));
    const uint32_t awaited = flat_.lanes[first + d.lane].firstStep + d.step;
    flat_.steps[awaited].awaited = true;
    flat_.afterSteps.push_back(awaited);
  }

  /// The k-th message sent is the k-th received, because each end is one lane in order.
  void compareEnds(uint32_t number) {
    const Edge& edge = flat_.edges[number];
    const std::vector<EdgeEnd>& sends = sends_[number];
    const std::vector<EdgeEnd>& receives = receives_[number];
    const size_t both = std::min(sends.size(), receives.size());
    for (size_t k = 0; k < both; ++k)
      if (sends[k].chunks != receives[k].chunks ||
          (symmetry_.kind == Symmetry::Kind::None && sends[k].chunk != receives[k].chunk))
        return refuse(
            receives[k].step,
            base::message("expects other chunks in message ", k, " on channel ", edge.channel,
                          " from rank ", edge.from, " than ", nameOf(sends[k].step), " sends"));
    if (sends.size() > both)
      refuse(sends[both].step, base::message("sends message ", both, " on channel ", edge.channel,
                                             " to rank ", edge.to, ", which takes only ", both));
    if (receives.size() > both)
      refuse(receives[both].step,
             base::message("waits for message ", both, " on channel ", edge.channel, " from rank ",
                           edge.from, ", which sends only ", both));
  }

  std::string nameOf(uint32_t step) const {
    const FlatLane& lane = flat_.lanes[flat_.steps[step].lane];
    return errorAt(programOf(lane.rank), lane.rank, lane.number,
                   static_cast<int>(step - lane.firstStep), "")
        .message;
  }

  const PlanSpec& spec_;
  const Symmetry& symmetry_;
  const std::vector<int> ranks_;  // of the programs
  const std::vector<Program>& programs_;
  FlatPlan& flat_;
  EdgeNumbers edgeNumbers_;
  std::vector<std::vector<EdgeEnd>> sends_, receives_;
  std::optional<CheckError> error_;
};

}  // namespace

CheckError errorAt(const Program& program, int rank, int lane, int step, const std::string& what) {
  const Step& s = program.lanes[static_cast<size_t>(lane)].steps[static_cast<size_t>(step)];
  return {rank, lane, step,
          base::message("rank ", rank, ", lane ", lane, ", step ", step, " (", toText(s), ")",
                        what.empty() ? "" : ": ", what)};
}

std::optional<CheckError> flatten(const PlanSpec& spec, const std::vector<Program>& programs,
                                  FlatPlan& flat) {
  return flatten(spec, Symmetry::none(spec.ranks), programs, flat);
}

std::optional<CheckError> flatten(const PlanSpec& spec, const Symmetry& symmetry,
                                  const std::vector<Program>& programs, FlatPlan& flat) {
  return Flattener(spec, symmetry, programs, flat).run();
}

}  // namespace tutti::plan
