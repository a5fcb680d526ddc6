// Breaks every step of every plan on 1 to 8 ranks in every way of a list, one at a time. The
// checker must refuse the broken plan with a message that names a step, or the plan must still be
// proved: all of its proof, which is what "equivalent" means here. A table says how many of which.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "src/plan/checker.h"
#include "tests/collectives/plans.h"

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

struct Tally {
  int mutants = 0, rejected = 0;
  std::map<std::string, int> equivalent;  // by kind
};

/// Why a mutant of this kind may still be right. Kinds that are not here must be refused.
const std::map<std::string, std::string> kReasons{
    {"swap", "the two steps touch nothing in common"},
    {"other fold", "with two operands both folds are one addition"},
    {"double", "a copy made twice"},
    {"wrong buffer, source", "the other buffer already holds a copy of the chunk"},
};

void tryMutant(const PlanSpec& spec, const std::vector<Program>& programs, int rank, size_t lane,
               Mutant mutant, Tally& tally) {
  std::vector<Program> changed = programs;
  changed[static_cast<size_t>(rank)].lanes[lane].steps = std::move(mutant.steps);
  const plan::CheckResult result = plan::PlanChecker(spec, std::move(changed)).check();
  ++tally.mutants;
  if (result.ok()) {
    ++tally.equivalent[mutant.kind];
    EXPECT_TRUE(kReasons.contains(mutant.kind))
        << mutant.kind << " of rank " << rank << " was not refused: " << spec.describe();
    return;
  }
  ++tally.rejected;
  const std::string& text = result.error->message;
  EXPECT_GE(result.error->rank, 0) << mutant.kind << ": " << text;
  EXPECT_NE(text.find("step "), std::string::npos) << mutant.kind << ": " << text;
}

void tryAll(const AlgorithmInfo& info, const PlanSpec& spec, Tally& tally) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(info.build(spec, rank));
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const auto& lanes = programs[static_cast<size_t>(rank)].lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      for (size_t step = 0; step < lanes[lane].steps.size(); ++step)
        for (Mutant& mutant : Mutator(spec, lanes[lane].steps, step).all())
          tryMutant(spec, programs, rank, lane, std::move(mutant), tally);
  }
}

class Mutations : public testing::TestWithParam<int> {};

TEST_P(Mutations, AreRefusedOrEquivalent) {
  const AlgorithmInfo& info = registry().find(static_cast<Algorithm>(GetParam()));
  Tally tally;
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const PlanSpec& spec : test::specsOf(info, ranks, 1)) {
      if (ranks > 5 && spec.root > 1 && spec.root < ranks - 1) continue;
      tryAll(info, spec, tally);
      if (HasFailure()) return;
    }
  int equivalent = 0;
  for (const auto& [kind, count] : tally.equivalent) equivalent += count;
  std::printf("%-12s mutations %7d  rejected %7d  equivalent %6d\n", plan::toString(info.algorithm),
              tally.mutants, tally.rejected, equivalent);
  for (const auto& [kind, count] : tally.equivalent)
    std::printf("%14s equivalent %6d  %s: %s\n", "", count, kind.c_str(),
                kReasons.at(kind).c_str());
  EXPECT_EQ(tally.mutants, tally.rejected + equivalent);
  EXPECT_GT(tally.rejected, 1000);
}

INSTANTIATE_TEST_SUITE_P(Plans, Mutations, testing::Range(0, plan::kAlgorithmCount),
                         [](const auto& p) {
                           return std::string(plan::toString(static_cast<Algorithm>(p.param)));
                         });

}  // namespace
}  // namespace tutti::collectives
