// Ranks that perform their steps one after the other, in the order of waves, get to the end of
// every plan that stages its data.

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "src/plan/waves.h"
#include "tests/collectives/plans.h"

namespace tutti::collectives::test {
namespace {

using plan::Lane;
using plan::Port;
using plan::Step;
using plan::Turn;

/// One thread for each rank, which waits where its next step does.
class Threads {
 public:
  Threads(std::vector<Program> programs, uint32_t slots)
      : programs_(std::move(programs)), slots_(slots) {}

  /// How many steps are performed before all wait.
  size_t run(const std::vector<std::vector<Turn>>& orders) {
    std::vector<size_t> next(orders.size());
    size_t performed = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < orders.size(); ++rank)
        for (; next[rank] < orders[rank].size() && tries(rank, orders[rank][next[rank]]);
             moved = true)
          ++next[rank], ++performed;
    }
    return performed;
  }

 private:
  using Key = std::tuple<int, int, int>;

  bool tries(size_t rank, const Turn& turn) {
    const Lane& lane = programs_[rank].lanes[turn.lane];
    const Step& step = lane.steps[turn.step];
    if (done_[{rank, turn.lane}] != turn.step) return false;
    for (const plan::Dependency& d : step.after)
      if (done_[{rank, d.lane}] <= d.step) return false;
    auto under = inSlots_;
    const int self = static_cast<int>(rank);
    for (const Port& port : step.targets)  // a slot is given back at the end of its step
      if (port.kind == Port::Kind::Channel &&
          ++under[{lane.channel, self, port.rank}] > static_cast<int>(slots_))
        return false;
    for (const Port& port : step.sources)
      if (port.kind == Port::Kind::Channel && --under[{lane.channel, port.rank, self}] < 0)
        return false;
    inSlots_ = std::move(under);
    ++done_[{rank, turn.lane}];
    return true;
  }

  const std::vector<Program> programs_;
  const uint32_t slots_;
  std::map<Key, int> inSlots_;  // messages, by channel, sender and receiver
  std::map<std::pair<size_t, uint32_t>, uint32_t> done_;
};

size_t stepsOf(const std::vector<Program>& programs) {
  size_t steps = 0;
  for (const Program& program : programs)
    for (const Lane& lane : program.lanes) steps += lane.steps.size();
  return steps;
}

TEST(Waves, AreAnOrderInWhichNobodyWaitsForEver) {
  size_t plans = 0;
  for (const AlgorithmInfo& info : registry().algorithms())
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const int channels : {1, 2})
        for (const PlanSpec& spec : specsOf(info, ranks, channels)) {
          if (spec.mapped.any()) continue;
          const auto programs = programsOf(info, spec);
          const auto programOf = [&](int rank) { return programs[static_cast<size_t>(rank)]; };
          for (const int least : {1, 4}) {
            const auto slots = static_cast<uint32_t>(std::max(spec.minSlots, least));
            std::vector<std::vector<Turn>> orders;
            for (int rank = 0; rank < ranks; ++rank)
              orders.push_back(plan::wavesOf(programOf, ranks, rank, slots).turns);
            ASSERT_EQ(Threads(programs, slots).run(orders), stepsOf(programs)) << spec.describe();
          }
          ++plans;
        }
  EXPECT_GT(plans, 1000U);
}

}  // namespace
}  // namespace tutti::collectives::test
