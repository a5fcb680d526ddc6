#include "collectives/regret.h"

#include <gtest/gtest.h>

#include <tutti/error.h>
#include "collectives/chooser.h"
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
                          .topology = {.ranks = ranks, .cores = 8}};
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
  const plan::CollectiveRequest request{.count = 1};
  const topology::Topology topology{.ranks = 4, .cores = 4};
  MeasuredCall call{request, topology, {{"ring", 2}, {"one_shot", 6}, {"two_shot", 3}}};
  ASSERT_EQ(chosenName(request, topology, {}), "one_shot");
  EXPECT_DOUBLE_EQ(regret(call, {}), 3);
  MeasuredCall good = call;
  good.microseconds["one_shot"] = 1;
  const std::vector<MeasuredCall> both{call, good};
  EXPECT_DOUBLE_EQ(regrets(both, {}).mean, 2);
  EXPECT_DOUBLE_EQ(regrets(both, {}).worst, 3);
  call.microseconds.erase("one_shot");
  const auto outcome = tests::outcomeOf([&] { regret(call, {}); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  EXPECT_NE(outcome.text.find("one_shot is chosen"), std::string::npos) << outcome.text;
}

TEST(Regret, OfBuffersInWindowsIsThatOfTheMappedForm) {
  MeasuredCall call;
  call.request.count = 1 << 20;
  call.request.mappable = true;
  call.topology = {.ranks = 4, .cores = 4};
  call.microseconds["mapped"] = 5;
  for (const char* name : {"ring", "one_shot", "two_shot", "recursive", "double_tree"})
    call.microseconds[name] = 10;
  EXPECT_DOUBLE_EQ(regret(call, {}), 1);
  call.request.mappable = false;
  EXPECT_DOUBLE_EQ(regret(call, {}), 2);
}

TEST(Fit, FindsConstantsThatChooseWell) {
  Tuning truth;
  truth.messageMicroseconds = 5;
  truth.stepMicroseconds = 0.4;
  truth.copyGigabytesPerSecond = 20;
  truth.reduceGigabytesPerSecond = 3;
  const auto calls = machine(truth);
  const Regrets before = regrets(calls, {});
  ASSERT_GT(before.worst, 1.3) << "the defaults are good enough: nothing is tested";
  const Tuning fitted = fit(calls, {});
  EXPECT_LE(regrets(calls, fitted).worst, 1.05);
  EXPECT_EQ(fit(calls, {}), fitted) << "not a pure function";
  // What the calls do not tell stays: one host, and enough cores.
  EXPECT_EQ(fitted.networkMicroseconds, Tuning{}.networkMicroseconds);
  EXPECT_EQ(fitted.networkGigabytesPerSecond, Tuning{}.networkGigabytesPerSecond);
  EXPECT_EQ(fitted.yieldMicroseconds, Tuning{}.yieldMicroseconds);
}

TEST(Fit, OfNothingChangesNothing) { EXPECT_EQ(fit({}, {}), Tuning{}); }

}  // namespace
}  // namespace tutti::collectives
