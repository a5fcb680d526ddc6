#include "collectives/regret.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include <tutti/error.h>
#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/plan/mapped_buffer_policy.h"
#include "tests/support/outcome.h"

namespace tutti::collectives {
namespace {

using topology::Tuning;

/// What a machine with these constants would take, for several calls.
std::vector<MeasuredCall> machine(const Tuning& truth) {
  std::vector<MeasuredCall> calls;
  for (const int ranks : {2, 4, 8})
    for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::Broadcast})
      for (const uint64_t count : {2, 256, 16384, 1 << 20}) {
        MeasuredCall call{.request = {.collective = c, .count = count},
                          .topology = {.ranks = ranks, .cores = 8},
                          .windows = false};
        for (const Candidate& candidate : choose(call.request, call.topology, truth).candidates)
          if (candidate.spec.protocol == Protocol::Simple)
            call.microseconds.try_emplace(plan::toString(candidate.spec.algorithm),
                                          candidate.microseconds);
        calls.push_back(std::move(call));
      }
  return calls;
}

TEST(Regret, IsOneWithTheConstantsOfTheMachine) {
  Tuning truth;
  truth.messageMicroseconds = 2;
  const auto calls = machine(truth);
  EXPECT_LE(regrets(calls, truth).worst, 1.02);
  EXPECT_GE(regrets(calls, truth).mean, 1);
}

TEST(Regret, IsTheRatioOfTheChosenAndTheBest) {
  MeasuredCall call{.request = {.count = 1},
                    .topology = {.ranks = 4, .cores = 4},
                    .microseconds = {{"ring", 2}, {"one_shot", 6}, {"two_shot", 3}}};
  const Choice choice = choose(call.request, call.topology, {});
  ASSERT_EQ(choice.spec.algorithm, Algorithm::OneShot);
  EXPECT_DOUBLE_EQ(regret(call, {}), 3);
  MeasuredCall good = call;
  good.microseconds["one_shot"] = 1;
  const std::vector<MeasuredCall> both{call, good};
  EXPECT_DOUBLE_EQ(regrets(both, {}).mean, 2);
  EXPECT_DOUBLE_EQ(regrets(both, {}).worst, 3);
  call.microseconds.erase("one_shot");
  const auto outcome = tests::outcomeOf([&] { regret(call, {}); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  EXPECT_NE(outcome.text.find("one_shot simple, 4 ranks"), std::string::npos) << outcome.text;
}

// Between hosts the channels count, too, where they were measured.
TEST(Regret, KnowsTheChannelsThatWereMeasured) {
  MeasuredCall call{.request = {.collective = Collective::AllGather, .count = 1 << 14},
                    .topology = {.ranks = 2, .cores = 2, .hostOf = {0, 1}, .channels = 4}};
  const Choice choice = choose(call.request, call.topology, {});
  ASSERT_EQ(choice.spec.channels, 1) << choice.reason;
  for (const char* name :
       {"ring/1", "ring/2", "ring/4", "recursive/1", "one_shot/1", "one_shot/2", "one_shot/4"})
    call.microseconds[name] = 60;
  const std::string chosen = base::message(plan::toString(choice.spec.algorithm), "/1");
  call.microseconds[chosen] = 80;
  call.microseconds["one_shot/4"] = 20;
  EXPECT_DOUBLE_EQ(regret(call, {}), 4);
  EXPECT_DOUBLE_EQ(regret(call, fit(std::vector{call}, {})), 1);
  call.microseconds.erase(chosen);
  EXPECT_THROW(regret(call, {}), Error);
}

TEST(Regret, OfBuffersInWindowsIsThatOfTheMappedForm) {
  MeasuredCall call;
  call.request.count = 1 << 20;
  call.topology = {.ranks = 4, .cores = 4};
  call.microseconds["mapped"] = 5;
  for (const char* name : {"ring", "one_shot", "two_shot", "recursive", "double_tree"})
    call.microseconds[name] = 10;
  EXPECT_DOUBLE_EQ(regret(call, {}), 1);
  Tuning shy;  // nobody is asked
  shy.entryMicroseconds = 1e5;
  EXPECT_DOUBLE_EQ(regret(call, shy), 2);
}

// A communicator does not know where the buffers of all ranks are, and asks now and then.
TEST(Regret, OfOrdinaryMemoryCountsWhatAskingTakes) {
  MeasuredCall call{.request = {.count = 1 << 20},
                    .topology = {.ranks = 4, .cores = 4},
                    .windows = false,
                    .policyMicroseconds = 2};
  for (const char* name : {"ring", "one_shot", "two_shot", "recursive", "double_tree"})
    call.microseconds[name] = 10;
  EXPECT_DOUBLE_EQ(regret(call, {}), 1 + 0.2 / plan::MappedBufferPolicy::kEvery);
  Tuning shy;
  shy.entryMicroseconds = 1e5;
  EXPECT_DOUBLE_EQ(regret(call, shy), 1);
}

// As many elements as the next power of two are chosen for.
TEST(Regret, IsThatOfTheCallsThatAreChosenForTogether) {
  MeasuredCall call{.request = {.count = 1}, .topology = {.ranks = 4, .cores = 4}};
  for (const char* name : {"ring", "one_shot", "two_shot", "recursive", "double_tree", "mapped"})
    call.microseconds[name] = 1;
  Tuning tuning;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "ring"}, {"all_reduce", 4, 1, 4096, "staged"}};
  call.microseconds["ring"] = 3;
  for (const auto& [count, expected] :
       std::map<uint64_t, double>{{512, 1}, {513, 3}, {1000, 3}, {1024, 3}, {1025, 1}}) {
    call.request.count = count;
    EXPECT_DOUBLE_EQ(regret(call, tuning), expected) << count;
  }
}

TEST(Merged, HasEachCallOnceWithItsTimesInTheMiddle) {
  MeasuredCall first{.request = {.count = 1},
                     .topology = {.ranks = 4, .cores = 4},
                     .microseconds = {{"ring", 2}, {"one_shot", 4}, {"two_shot", 8}},
                     .policyMicroseconds = 1};
  MeasuredCall again = first, third = first, other = first;
  // Thrice as slow, and one was held up; and one is better by a half, as it is never again.
  again.microseconds = {{"ring", 6}, {"one_shot", 12}, {"two_shot", 240}};
  third.microseconds = {{"ring", 1}, {"one_shot", 4}, {"two_shot", 8}};
  other.topology.cores = 2;
  again.policyMicroseconds = 3;
  third.policyMicroseconds = 5;
  const std::vector<MeasuredCall> calls{first, other, again, third};
  const auto all = merged(calls);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].topology.cores, 4);
  EXPECT_DOUBLE_EQ(all[0].microseconds.at("ring"), 2);
  EXPECT_DOUBLE_EQ(all[0].microseconds.at("one_shot"), 4);
  EXPECT_DOUBLE_EQ(all[0].microseconds.at("two_shot"), 8);
  EXPECT_DOUBLE_EQ(all[1].microseconds.at("one_shot"), 4);
  EXPECT_DOUBLE_EQ(all[0].policyMicroseconds, 3);
  again.microseconds = {{"ring", 8}, {"one_shot", 16}, {"two_shot", 32}};
  const auto two = merged(std::vector{first, again});
  ASSERT_EQ(two.size(), 1U);
  EXPECT_DOUBLE_EQ(two[0].microseconds.at("one_shot"), 8);  // the geometric mean
  third.microseconds.erase("ring");
  EXPECT_NE(tests::outcomeOf([&] {
              merged(std::vector{first, third});
            }).text.find("ring was not measured"),
            std::string::npos);
  for (const auto& change : std::vector<std::function<void(MeasuredCall&)>>{
           [](MeasuredCall& c) { c.request.collective = Collective::Scan; },
           [](MeasuredCall& c) { c.request.count = 2; }, [](MeasuredCall& c) { c.windows = false; },
           [](MeasuredCall& c) { c.topology.ranks = 2; },
           [](MeasuredCall& c) {
             c.topology.hostOf = {0, 0, 1, 1};
           },
           [](MeasuredCall& c) { c.topology.slotBytes *= 2; },
           [](MeasuredCall& c) { ++c.topology.channels; }}) {
    MeasuredCall changed = first;
    change(changed);
    EXPECT_EQ(merged(std::vector<MeasuredCall>{first, changed}).size(), 2U);
  }
}

TEST(Fit, FindsConstantsThatChooseWell) {
  Tuning truth;
  truth.messageMicroseconds = 0.05;
  truth.stepMicroseconds = 0.02;
  truth.copyGigabytesPerSecond = 3;
  truth.reduceGigabytesPerSecond = 30;
  const auto calls = machine(truth);
  const Regrets before = regrets(calls, {});
  ASSERT_GT(before.worst, 1.3) << "the defaults are good enough: nothing is tested";
  const Tuning fitted = fit(calls, {});
  EXPECT_LE(regrets(calls, fitted).worst, 1.05);
  EXPECT_EQ(fit(calls, {}), fitted) << "not a pure function";
  // What the calls do not tell stays: one host, and enough cores.
  EXPECT_EQ(fitted.networkMicroseconds, Tuning{}.networkMicroseconds);
  EXPECT_EQ(fitted.networkGapMicroseconds, Tuning{}.networkGapMicroseconds);
  EXPECT_EQ(fitted.networkGigabytesPerSecond, Tuning{}.networkGigabytesPerSecond);
  EXPECT_EQ(fitted.yieldMicroseconds, Tuning{}.yieldMicroseconds);
}

// A call in windows and the same one in ordinary memory: one preference says which plan, another
// one whether to ask for mapped buffers.
TEST(Fit, PrefersForBothKindsOfMemory) {
  MeasuredCall ordinary{.request = {.count = 1 << 18},
                        .topology = {.ranks = 4, .cores = 4},
                        .windows = false,
                        .policyMicroseconds = 2.0 * plan::MappedBufferPolicy::kEvery};
  for (const char* name : {"ring", "one_shot", "two_shot", "recursive", "double_tree"})
    ordinary.microseconds[name] = 100;
  ordinary.microseconds["one_shot"] = 10;  // which no constants of a machine would foretell
  MeasuredCall window = ordinary;
  window.windows = true;
  // Asking makes calls on ordinary memory 1.2 times as long in the mean: not worth it for less.
  for (const double mapped : {5.0, 9.0, 50.0}) {
    window.microseconds["mapped"] = mapped;
    const std::vector<MeasuredCall> calls{window, ordinary};
    const Tuning tuned = fit(calls, {});
    const bool asks = mapped == 5;
    EXPECT_DOUBLE_EQ(regret(window, tuned), asks ? 1 : std::max(1.0, 10 / mapped));
    EXPECT_DOUBLE_EQ(regret(ordinary, tuned), asks ? 1.2 : 1);
  }
}

// Two sizes are measured; of those between, what was best for the nearer one is preferred.
TEST(Fit, PrefersForSizesBetweenThose) {
  std::vector<MeasuredCall> calls;
  for (const bool large : {false, true}) {
    MeasuredCall call{.request = {.count = large ? 1U << 18 : 1U << 10},
                      .topology = {.ranks = 4, .cores = 4},
                      .windows = false,
                      .policyMicroseconds = 1e4};
    for (const char* name : {"ring", "one_shot", "two_shot", "recursive", "double_tree"})
      call.microseconds[name] = 5000;
    call.microseconds["double_tree"] = large ? 1000 : 10;
    call.microseconds["recursive"] = large ? 250 : 40;
    calls.push_back(call);
  }
  const Tuning tuned = fit(calls, {});
  for (uint64_t count = 1 << 10; count <= 1 << 18; count *= 2) {
    if (count == 1 << 14) continue;  // where both take the same
    EXPECT_EQ(choose({.count = count, .mappable = true}, calls[0].topology, tuned).spec.algorithm,
              count < 1 << 14 ? Algorithm::DoubleTree : Algorithm::Recursive)
        << count;
  }
}

TEST(Fit, OfNothingChangesNothing) { EXPECT_EQ(fit({}, {}), Tuning{}); }

}  // namespace
}  // namespace tutti::collectives
