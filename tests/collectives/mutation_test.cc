// Breaks every step of every plan on 1 to 8 ranks in every way of a list, one at a time. The
// checker must refuse the broken plan with a message that names a step; or else it has proved a
// changed plan, and then the change must make no difference: the interpreter runs it under several
// schedules, and every word must be that of the plan before, in an arithmetic where another order
// of additions shows. A table says how many changes of which kind there are.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "src/base/check.h"
#include "src/plan/checker.h"
#include "tests/collectives/interpreter.h"
#include "tests/collectives/plans.h"
#include "tests/plan/handmade.h"

namespace tutti::collectives {
namespace {

using plan::Buffer;
using plan::Fold;
using plan::Port;
using plan::Step;

struct Mutant {
  std::string kind;
  std::vector<Step> steps;  // of the lane, after the mutation
};

/// All ways to break one step of a lane.
class Mutator {
 public:
  Mutator(const PlanSpec& spec, const std::vector<Step>& steps, size_t at)
      : spec_(spec), steps_(steps), at_(at) {}

  std::vector<Mutant> all() {
    order();
    flags();
    for (size_t i = 0; i < steps_[at_].sources.size(); ++i)
      port("source", [i](Step& s) -> Port& { return s.sources[i]; });
    for (size_t i = 0; i < steps_[at_].targets.size(); ++i)
      port("target", [i](Step& s) -> Port& { return s.targets[i]; });
    operands();
    return std::move(mutants_);
  }

 private:
  Step& add(const std::string& kind) {
    mutants_.push_back({kind, steps_});
    return mutants_.back().steps[at_];
  }
  void order() {
    const auto here = static_cast<std::ptrdiff_t>(at_);
    add("drop");
    mutants_.back().steps.erase(mutants_.back().steps.begin() + here);
    add("double");
    mutants_.back().steps.insert(mutants_.back().steps.begin() + here, steps_[at_]);
    if (at_ + 1 == steps_.size()) return;
    add("swap");
    std::swap(mutants_.back().steps[at_], mutants_.back().steps[at_ + 1]);
  }
  void flags() {
    add(steps_[at_].completes ? "completes dropped" : "completes added").completes ^= true;
    for (Fold fold : {Fold::None, Fold::Listed, Fold::Canonical})
      if (fold != steps_[at_].fold) add("other fold").fold = fold;
    for (size_t i = 0; i < steps_[at_].after.size(); ++i) {
      auto& after = add("dependency removed").after;
      after.erase(after.begin() + static_cast<std::ptrdiff_t>(i));
      add("wrong dependency").after[i].step -= 1;
      add("wrong dependency").after[i].lane += 1;
    }
  }
  void operands() {
    for (size_t i = 0; i < steps_[at_].sources.size(); ++i) {
      auto& sources = add("source removed").sources;
      sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (size_t i = 0; i < steps_[at_].targets.size(); ++i) {
      auto& targets = add("target removed").targets;
      targets.erase(targets.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  template <class Select>
  void port(const std::string& name, Select select) {
    const Port original = select(*const_cast<Step*>(&steps_[at_]));
    for (uint32_t by : {1U, spec_.divisions, UINT32_MAX, 0U - spec_.divisions})
      if (original.chunk + by < 4 * spec_.divisions * static_cast<uint32_t>(spec_.ranks))
        select(add("wrong chunk, " + name)).chunk += by;
    select(add("wrong size, " + name)).chunks += 1;
    if (original.chunks > 0) select(add("wrong size, " + name)).chunks -= 1;
    if (original.kind == Port::Kind::Channel || original.kind == Port::Kind::Mapped)
      for (int peer = -1; peer <= spec_.ranks; ++peer)
        if (peer != original.rank) select(add("wrong peer, " + name)).rank = peer;
    if (original.kind != Port::Kind::Channel)
      for (Buffer buffer : {Buffer::In, Buffer::Out, Buffer::Scratch})
        if (buffer != original.buffer) select(add("wrong buffer, " + name)).buffer = buffer;
  }

  const PlanSpec& spec_;
  const std::vector<Step>& steps_;
  const size_t at_;
  std::vector<Mutant> mutants_;
};

struct Count {
  int mutants = 0, equivalent = 0;
};
using Tally = std::map<std::string, Count>;  // by kind

/// By kind, for ring, double tree, recursive, one shot, two shot, pairwise and hierarchical. Kinds
/// without equivalents must always be refused; of the others:
///   double                a copy made twice
///   other fold            with two or three operands both folds are the same additions; with more,
///                         in a Reduce of no canonical order, another one that is as good: the root
///                         alone has the sum
///   swap                  the two steps touch nothing in common
///   wrong buffer, source  the other buffer already holds a copy of the chunk
const std::map<std::string, std::array<Count, plan::kAlgorithmCount>> kCounts{
    {"completes added",
     {{{1413, 0}, {1056, 0}, {1651, 0}, {4510, 0}, {4919, 0}, {471, 0}, {2755, 0}}}},
    {"completes dropped", {{{165, 0}, {112, 0}, {147, 0}, {209, 0}, {594, 0}, {0, 0}, {242, 0}}}},
    {"dependency removed", {{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {72, 0}}}},
    {"double",
     {{{1578, 4}, {1168, 2}, {1798, 31}, {4719, 909}, {5513, 234}, {471, 55}, {2997, 0}}}},
    {"drop", {{{1578, 0}, {1168, 0}, {1798, 0}, {4719, 0}, {5513, 0}, {471, 0}, {2997, 0}}}},
    {"other fold",
     {{{3156, 664}, {2336, 298}, {3596, 408}, {9438, 69}, {11026, 278}, {942, 0}, {5994, 636}}}},
    {"source removed",
     {{{2242, 0}, {1602, 0}, {2267, 0}, {7431, 0}, {10087, 0}, {471, 0}, {4068, 0}}}},
    {"swap",
     {{{832, 12}, {34, 0}, {1026, 631}, {2752, 2164}, {4380, 3322}, {416, 208}, {1383, 554}}}},
    {"target removed",
     {{{2242, 0}, {1602, 0}, {2006, 0}, {7351, 0}, {9899, 0}, {471, 0}, {3996, 0}}}},
    {"wrong buffer, source",
     {{{1908, 0}, {1292, 0}, {2416, 7}, {5174, 0}, {8598, 0}, {526, 0}, {3452, 0}}}},
    {"wrong buffer, target",
     {{{1908, 0}, {1292, 0}, {1894, 0}, {5014, 0}, {8222, 0}, {526, 0}, {3308, 0}}}},
    {"wrong chunk, source",
     {{{6260, 0}, {3968, 0}, {5678, 0}, {19151, 0}, {26359, 0}, {1709, 0}, {11321, 0}}}},
    {"wrong chunk, target",
     {{{6260, 0}, {3968, 0}, {4969, 0}, {18979, 0}, {25829, 0}, {1709, 0}, {11119, 0}}}},
    {"wrong dependency", {{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {144, 0}}}},
    {"wrong peer, source",
     {{{8888, 0}, {6732, 0}, {7160, 0}, {38124, 0}, {57306, 0}, {1440, 0}, {16818, 0}}}},
    {"wrong peer, target",
     {{{8888, 0}, {6732, 0}, {7160, 0}, {39474, 0}, {56178, 0}, {1440, 0}, {16818, 0}}}},
    {"wrong size, source",
     {{{4484, 0}, {3136, 0}, {4424, 0}, {11786, 0}, {17474, 0}, {942, 0}, {8004, 0}}}},
    {"wrong size, target",
     {{{4484, 0}, {3136, 0}, {3902, 0}, {11626, 0}, {17098, 0}, {942, 0}, {7860, 0}}}},
};

/// Everything that users see after a run, on data that only (plan,
/// in place) decide.
test::Words wordsOf(const PlanSpec& spec, const std::vector<Program>& programs, bool inPlace,
                    uint64_t schedule, test::Arithmetic arithmetic) {
  const size_t chunkWords = 16;  // three rounds and an odd rest
  test::Interpreter run(spec, programs,
                        {.count = 3 * spec.divisions * chunkWords - 5,
                         .slotBytes = std::max<uint32_t>(1, spec.messageChunks) * 8 * chunkWords,
                         .inPlace = inPlace,
                         .arithmetic = arithmetic,
                         .dataSeed = 20240607,
                         .schedule = schedule});
  EXPECT_TRUE(run.run()) << "stuck: " << spec.describe() << ", schedule " << schedule;
  return run.outputs();
}

constexpr uint64_t kSchedules = 10;

/// A plan and what it delivers, out of place and in place.
class Original {
 public:
  Original(const PlanSpec& spec, std::vector<Program> programs)
      : spec_(spec), programs_(std::move(programs)) {
    for (bool inPlace : {false, true})
      for (auto arithmetic : {test::Arithmetic::Sum, test::Arithmetic::Ordered})
        if (!inPlace || spec.inPlaceSafe)
          words_[{inPlace, arithmetic}] = wordsOf(spec_, programs_, inPlace, 2, arithmetic);
  }
  const PlanSpec& spec() const { return spec_; }
  const std::vector<Program>& programs() const { return programs_; }
  /// Schedules under which `programs` deliver something else.
  int differences(const std::vector<Program>& programs,
                  test::Arithmetic arithmetic = test::Arithmetic::Ordered) const {
    int different = 0;
    for (uint64_t schedule = 0; schedule < kSchedules; ++schedule)
      for (bool inPlace : {false, true}) {
        if (inPlace && !spec_.inPlaceSafe) continue;
        different += wordsOf(spec_, programs, inPlace, schedule, arithmetic) !=
                     words_.at({inPlace, arithmetic});
      }
    return different;
  }

 private:
  const PlanSpec spec_;
  const std::vector<Program> programs_;
  std::map<std::pair<bool, test::Arithmetic>, test::Words> words_;
};

void tryMutant(const Original& original, int rank, size_t lane, Mutant mutant, Tally& tally) {
  std::vector<Program> changed = original.programs();
  changed[static_cast<size_t>(rank)].lanes[lane].steps = std::move(mutant.steps);
  const plan::CheckResult result = plan::PlanChecker(original.spec(), changed).check();
  ++tally[mutant.kind].mutants;
  if (result.ok()) {
    ++tally[mutant.kind].equivalent;
    const bool anyOrder = mutant.kind == "other fold" &&
                          original.spec().collective == Collective::Reduce &&
                          !original.spec().canonicalOrder;
    const auto arithmetic = anyOrder ? test::Arithmetic::Sum : test::Arithmetic::Ordered;
    EXPECT_EQ(original.differences(changed, arithmetic), 0)
        << mutant.kind << " of rank " << rank << ", lane " << lane
        << " was proved and makes a difference: " << original.spec().describe();
    return;
  }
  const plan::CheckError& error = *result.error;
  const std::string& text = error.message;
  ASSERT_TRUE(error.rank >= 0 && error.rank < original.spec().ranks) << text;
  EXPECT_NE(text.find("step "), std::string::npos) << mutant.kind << ": " << text;
  if (error.step < 0) return;  // a step that is missing
  const auto& lanes = changed[static_cast<size_t>(error.rank)].lanes;
  ASSERT_LT(static_cast<size_t>(error.lane), lanes.size()) << text;
  ASSERT_LT(static_cast<size_t>(error.step), lanes[static_cast<size_t>(error.lane)].steps.size())
      << text;
  EXPECT_NE(text.find(base::message("rank ", error.rank, ", lane ", error.lane, ", step ",
                                    error.step, " (")),
            std::string::npos)
      << mutant.kind << ": " << text;
}

void tryAll(const Original& original, Tally& tally) {
  for (int rank = 0; rank < original.spec().ranks; ++rank) {
    const auto& lanes = original.programs()[static_cast<size_t>(rank)].lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      for (size_t step = 0; step < lanes[lane].steps.size(); ++step)
        for (Mutant& mutant : Mutator(original.spec(), lanes[lane].steps, step).all())
          tryMutant(original, rank, lane, std::move(mutant), tally);
  }
}

/// Two channels are two plans side by side, of half the chunks
/// each: small worlds show what there is.
constexpr int kRanksWithTwoChannels = 4;

class Mutations : public testing::TestWithParam<int> {};

TEST_P(Mutations, AreRefusedOrMakeNoDifference) {
  const auto algorithm = static_cast<Algorithm>(GetParam());
  const AlgorithmInfo& info = registry().find(algorithm);
  Tally tally;
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int channels = 1; channels <= (ranks <= kRanksWithTwoChannels ? 2 : 1); ++channels)
      for (const PlanSpec& spec : test::specsOf(info, ranks, channels)) {
        tryAll({spec, test::programsOf(info, spec)}, tally);
        if (HasFailure()) return;
      }
  for (const auto& [kind, count] : tally) {
    std::printf("%-12s %-22s %7d, of which equivalent %5d\n", plan::toString(algorithm),
                kind.c_str(), count.mutants, count.equivalent);
    ASSERT_TRUE(kCounts.contains(kind)) << kind;
  }
  for (const auto& [kind, counts] : kCounts) {
    EXPECT_EQ(tally[kind].mutants, counts[GetParam()].mutants) << kind;
    EXPECT_EQ(tally[kind].equivalent, counts[GetParam()].equivalent) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, Mutations, testing::Range(0, plan::kAlgorithmCount),
                         [](const auto& p) {
                           return std::string(plan::toString(static_cast<Algorithm>(p.param)));
                         });

/// In plans of the library only the results of a hierarchical
/// AllReduce wait for another lane, that of the sums. This plan
/// written by hand lives by dependencies both ways.
TEST(Dependencies, OfAPlanThatNeedsThemAreMissed) {
  const auto [spec, programs] = plan::test::addAside();
  const Original original(spec, programs);
  EXPECT_EQ(original.differences(programs), 0);
  int removed = 0;
  for (size_t rank = 0; rank < programs.size(); ++rank)
    for (size_t lane = 0; lane < programs[rank].lanes.size(); ++lane)
      for (size_t step = 0; step < programs[rank].lanes[lane].steps.size(); ++step) {
        std::vector<Program> changed = programs;
        auto& after = changed[rank].lanes[lane].steps[step].after;
        if (after.empty()) continue;
        after.clear();
        ++removed;
        const std::string where = base::message("rank ", rank, ", lane ", lane, ", step ", step);
        EXPECT_FALSE(plan::PlanChecker(spec, changed).check().ok()) << where;
        EXPECT_GT(original.differences(changed), 0) << where << " waits for nothing of worth";
      }
  EXPECT_EQ(removed, 4);
}

}  // namespace
}  // namespace tutti::collectives
