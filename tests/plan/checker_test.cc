// The checker on small programs written by hand, each wrong in one way or just right.

#include "src/plan/checker.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/plan/handmade.h"

namespace tutti::plan {
namespace {

using namespace test;

std::string refusal(const PlanSpec& spec, std::vector<Program> programs,
                    std::initializer_list<int> rounds = {1, 2, 3}) {
  const CheckResult result = PlanChecker(spec, std::move(programs)).check(rounds);
  return result.error ? result.error->message : "";
}

void expectRefusal(const std::string& text, std::initializer_list<const char*> parts) {
  EXPECT_FALSE(text.empty()) << "not refused";
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

const Step kIn{.sources = {local(Buffer::In, 0)}, .targets = {local(Buffer::Scratch, 0)}};
const Step kOut{.sources = {local(Buffer::Scratch, 0)}, .targets = {local(Buffer::Out, 0)}};

TEST(Checker, DependenciesOrderLanes) {
  for (const HandmadePlan& plan : {handover(), addAside()})
    EXPECT_EQ(refusal(plan.spec, plan.programs), "");
}

TEST(Checker, ARemovedDependencyIsARace) {
  auto [spec, programs] = handover();
  programs[0].lanes[1].steps[0].after.clear();
  expectRefusal(refusal(spec, programs, {1}), {"lane 1, step 0", "scratch 0"});
}

TEST(Checker, ScratchIsReusedByTheNextRound) {
  auto [spec, programs] = handover();
  programs[0].lanes[0].steps[1].after.clear();
  spec.inPlaceSafe = false;  // lane 0 would still read the input that lane 1 writes
  EXPECT_EQ(refusal(spec, programs, {1}), "");
  expectRefusal(refusal(spec, programs, {2}),
                {"scratch 0", "lane 0, step 0", "while it is", "lane 1, step 0"});
}

// A sum that is doubled 33 times has no leaf more, if they are counted modulo 2^32, and too many to
// walk.
TEST(Checker, RefusesASumThatIsDoubledAgainAndAgain) {
  PlanSpec spec = handmadeSpec(Collective::AllReduce, 1);
  constexpr uint32_t kTimes = 33;
  spec.scratchBlocks = 2 * kTimes + 2;
  Program program{{{0, {}}}};
  std::vector<Step>& steps = program.lanes[0].steps;
  for (uint32_t copy : {0, 1})
    steps.push_back({.sources = {local(Buffer::In, 0)}, .targets = {local(Buffer::Scratch, copy)}});
  for (uint32_t time = 0; time < kTimes; ++time)
    steps.push_back(
        {.sources = {local(Buffer::Scratch, 2 * time), local(Buffer::Scratch, 2 * time + 1)},
         .targets = {local(Buffer::Scratch, 2 * time + 2), local(Buffer::Scratch, 2 * time + 3)},
         .fold = Fold::Listed});
  steps.push_back({.sources = {local(Buffer::Scratch, 2 * kTimes)},
                   .targets = {local(Buffer::Out, 0)},
                   .completes = true});
  expectRefusal(refusal(spec, {program}), {"ranks enter many times"});
}

TEST(Checker, NamesACycleOfDependencies) {
  auto [spec, programs] = handover();
  programs[0].lanes[0].steps[0].after.push_back({1, 0});
  expectRefusal(refusal(spec, programs),
                {"circular wait", "lane 0, step 0", "lane 1, step 0", "and so on"});
}

TEST(Checker, RefusesADependencyOnNothing) {
  auto [spec, programs] = handover();
  programs[0].lanes[1].steps[0].after = {{0, 2}};
  expectRefusal(refusal(spec, programs), {"lane 1, step 0", "step 2 of lane 0"});
}

TEST(Checker, RefusesAShiftedCopyWithinOneBuffer) {
  PlanSpec spec = handmadeSpec(Collective::Broadcast, 1);
  spec.scratchBlocks = 3;
  const Step second{.sources = {local(Buffer::In, 0)}, .targets = {local(Buffer::Scratch, 1)}};
  const Step shift{.sources = {local(Buffer::Scratch, 0, 2)},
                   .targets = {local(Buffer::Scratch, 1, 2)}};
  expectRefusal(refusal(spec, {{{{0, {kIn, second, shift, kOut}}}}}),
                {"step 2", "scratch 1", "reads as another chunk"});
}

/// Every rank sends its input to the next and folds what arrives: P = 2 all reduce.
std::vector<Program> exchange() {
  std::vector<Program> programs;
  for (int rank : {0, 1}) {
    const Step send{.sources = {local(Buffer::In, 0)}, .targets = {channel(1 - rank, 0)}};
    const Step add{.sources = {channel(1 - rank, 0), local(Buffer::In, 0)},
                   .targets = {local(Buffer::Out, 0)},
                   .fold = Fold::Listed,
                   .completes = true};
    programs.push_back({{{0, {send, add}}}});
  }
  return programs;
}

TEST(Checker, AdditionOfTwoIsCommutative) {
  EXPECT_EQ(refusal(handmadeSpec(Collective::AllReduce, 2), exchange()), "");
}

TEST(Checker, NamesACircularWaitForMessages) {
  std::vector<Program> programs = exchange();
  for (Program& program : programs) std::swap(program.lanes[0].steps[0], program.lanes[0].steps[1]);
  expectRefusal(refusal(handmadeSpec(Collective::AllReduce, 2), programs),
                {"circular wait", "rank 0, lane 0, step 0", "rank 1, lane 0, step 0",
                 "waits for a message from rank 1"});
}

TEST(Checker, NamesACircularWaitForSlots) {
  PlanSpec spec = handmadeSpec(Collective::Barrier, 2);
  spec.canonicalOrder = false;
  spec.messageChunks = 0;
  const auto programs = [](int count) {
    std::vector<Program> all;
    for (int rank : {0, 1}) {
      Lane lane;
      for (int i = 0; i < count; ++i) lane.steps.push_back({.targets = {signal(1 - rank)}});
      for (int i = 0; i < count; ++i) lane.steps.push_back({.sources = {signal(1 - rank)}});
      all.push_back({{lane}});
    }
    return all;
  };
  EXPECT_EQ(refusal(spec, programs(1)), "");
  expectRefusal(refusal(spec, programs(2)), {"circular wait", "waits for one of 1 slots"});
  spec.minSlots = 2;
  EXPECT_EQ(refusal(spec, programs(2)), "");
}

// The copy onto itself leaves the input's premultiplied value where the sum multiplies it again.
TEST(Checker, NoSumReadsAnInputThatWasOverwrittenInPlace) {
  PlanSpec spec = handmadeSpec(Collective::AllReduce, 2);
  std::vector<Program> programs = exchange();
  programs[0].lanes[0].steps[0].targets.push_back(local(Buffer::Out, 0));
  expectRefusal(refusal(spec, programs),
                {"rank 0, lane 0, step 1", "rank 0's in 0 as an input after rank 0, lane 0, step 0",
                 "in place"});
  spec.inPlaceSafe = false;
  EXPECT_EQ(refusal(spec, programs), "");
}

TEST(Checker, BothEndsAgreeOnEveryMessage) {
  const PlanSpec spec = handmadeSpec(Collective::AllReduce, 2);
  std::vector<Program> programs = exchange();
  programs[1].lanes[0].steps.push_back(
      {.sources = {channel(0, 0)}, .targets = {local(Buffer::Out, 0)}});
  expectRefusal(refusal(spec, programs), {"rank 1, lane 0, step 2", "message 1", "only 1"});
  programs = exchange();
  programs[0].lanes[0].steps.push_back(
      {.sources = {local(Buffer::In, 0)}, .targets = {channel(1, 0)}});
  expectRefusal(refusal(spec, programs), {"rank 0, lane 0, step 2", "takes only 1"});
  programs = exchange();
  programs[0].lanes.push_back(
      {0, {{.sources = {local(Buffer::In, 0)}, .targets = {channel(1, 0)}}}});
  expectRefusal(refusal(spec, programs), {"rank 0, lane 1, step 0", "lanes 0 and 1 both send"});
  programs = exchange();
  programs[0].lanes[0].channel = 1;
  expectRefusal(refusal(spec, programs), {"rank 0, lane 0", "channel 1 of 1"});
}

/// Three ranks give each other everything; rank 2 adds by `odd`.
std::vector<Program> allToAll(Fold odd) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 3; ++rank) {
    Step send{.sources = {local(Buffer::In, 0)}};
    Step add{.targets = {local(Buffer::Out, 0)}, .fold = Fold::Canonical, .completes = true};
    for (int q = 0; q < 3; ++q) {
      if (q != rank) send.targets.push_back(channel(q, 0));
      add.sources.push_back(q == rank ? local(Buffer::In, 0) : channel(q, 0));
    }
    if (rank == 2) add.fold = odd;
    programs.push_back({{{0, {send, add}}}});
  }
  return programs;
}

TEST(Checker, AllRanksAddInOneOrder) {
  const PlanSpec spec = handmadeSpec(Collective::AllReduce, 3);
  EXPECT_EQ(refusal(spec, allToAll(Fold::Canonical)), "");
  // Both are (0+1)+2, but a step may round a list otherwise than a tree.
  expectRefusal(refusal(spec, allToAll(Fold::Listed)), {"rank 2", "rank 0 has added", "step 1"});
  std::vector<Program> programs = allToAll(Fold::Canonical);
  std::swap(programs[1].lanes[0].steps[1].sources[0], programs[1].lanes[0].steps[1].sources[2]);
  expectRefusal(refusal(spec, programs), {"rank 1", "step 1", "tree(2,1,0)"});
}

/// The exchange, but `rank` puts its sum aside and completes the copy.
std::vector<Program> completeLater(std::vector<Program> programs, size_t rank) {
  std::vector<Step>& steps = programs[rank].lanes[0].steps;
  steps[1].completes = false;
  steps[1].targets = {local(Buffer::Scratch, 0)};
  steps.push_back({.sources = {local(Buffer::Scratch, 0)},
                   .targets = {local(Buffer::Out, 0)},
                   .completes = true});
  return programs;
}

TEST(Checker, AStoredSumIsDividedOtherwiseThanOneBeingFolded) {
  PlanSpec spec = handmadeSpec(Collective::AllReduce, 2);
  spec.scratchBlocks = 1;
  // Rank 0 divides while it adds, rank 1 what it has rounded: 40000 and infinity in float16.
  expectRefusal(refusal(spec, completeLater(exchange(), 1)),
                {"rank 1", "step 2", "stored (0+1)", "rank 0 has added"});
  EXPECT_EQ(refusal(spec, completeLater(completeLater(exchange(), 0), 1)), "");
}

TEST(Checker, BuildsNothingFromAnUnsoundSpec) {
  PlanSpec spec = handmadeSpec(Collective::Broadcast, 2);
  spec.root = 2;
  const BuildFunction build = [](const PlanSpec&, int) -> Program {
    throw std::logic_error("built from an unsound spec");
  };
  const CheckResult result = PlanChecker(spec, build).check();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error->message.find("root 2 of 2 ranks"), std::string::npos);
}

TEST(Checker, ContributionsEnterOnce) {
  std::vector<Program> programs = allToAll(Fold::Canonical);
  programs[0].lanes[0].steps[1].sources[1] = local(Buffer::In, 0);
  programs[1].lanes[0].steps[0].targets.erase(programs[1].lanes[0].steps[0].targets.begin());
  expectRefusal(refusal(handmadeSpec(Collective::AllReduce, 3), programs),
                {"rank 0", "step 1", "twice"});
}

/// A mapped broadcast from rank 0 to rank 1, and `signals` afterwards from `teller`.
std::vector<Program> mappedBroadcast(int teller, int signals) {
  std::vector<Program> programs(2);
  programs[0].lanes = {
      {0, {{.sources = {local(Buffer::In, 0)}, .targets = {local(Buffer::Out, 0)}}}}};
  programs[1].lanes = {
      {0, {{.sources = {mapped(0, Buffer::In, 0)}, .targets = {local(Buffer::Out, 0)}}}}};
  for (int i = 0; i < signals; ++i) {
    programs[static_cast<size_t>(teller)].lanes[0].steps.push_back(
        {.targets = {signal(1 - teller)}});
    programs[static_cast<size_t>(1 - teller)].lanes[0].steps.push_back(
        {.sources = {signal(teller)}});
  }
  return programs;
}

TEST(Checker, MappedBuffersStayUntilTheirReadersTell) {
  PlanSpec spec = handmadeSpec(Collective::Broadcast, 2);
  spec.protocol = Protocol::Mapped;
  spec.mapped.in = true;
  spec.messageChunks = 0;
  spec.inPlaceSafe = false;  // the root writes its output while rank 1 reads its input
  EXPECT_EQ(refusal(spec, mappedBroadcast(1, 1)), "");
  expectRefusal(refusal(spec, mappedBroadcast(1, 0)),
                {"rank 1, lane 0, step 0", "after rank 0 has ended"});
  // With one slot rank 0's second signal waits for a slot that rank 1 frees after its read. That a
  // slot is free tells nothing about memory, so it is no proof.
  expectRefusal(refusal(spec, mappedBroadcast(0, 2)), {"after rank 0 has ended"});
}

// Each copy in place may go on while others read it, as it changes nothing.
TEST(Checker, AttachedBuffersAreReadAndNeverWritten) {
  PlanSpec spec = handmadeSpec(Collective::Broadcast, 2);
  spec.protocol = Protocol::Attached;
  spec.mapped.in = true;
  spec.messageChunks = 0;
  EXPECT_EQ(refusal(spec, mappedBroadcast(1, 1)), "");
  spec.mapped = {.out = true};
  std::vector<Program> programs = mappedBroadcast(1, 1);
  programs[0].lanes[0].steps[0].targets = {local(Buffer::Out, 0), mapped(1, Buffer::Out, 0)};
  expectRefusal(refusal(spec, programs),
                {"rank 0, lane 0, step 0", "writes another rank's buffer"});
}

TEST(Checker, InPlaceIsNotClaimedWrongly) {
  PlanSpec spec = handmadeSpec(Collective::AllReduce, 2);
  spec.protocol = Protocol::Mapped;
  spec.mapped.in = true;
  spec.messageChunks = 0;
  std::vector<Program> programs;
  for (int rank : {0, 1}) {
    Step add{.targets = {local(Buffer::Out, 0)}, .fold = Fold::Canonical, .completes = true};
    for (int q : {0, 1})
      add.sources.push_back(q == rank ? local(Buffer::In, 0) : mapped(q, Buffer::In, 0));
    programs.push_back(
        {{{0, {add, {.targets = {signal(1 - rank)}}, {.sources = {signal(1 - rank)}}}}}});
  }
  expectRefusal(refusal(spec, programs), {"step 0", "in place"});
  spec.inPlaceSafe = false;
  EXPECT_EQ(refusal(spec, programs), "");
}

TEST(Checker, UsersBuffersAreTouchedOnlyWhereGiven) {
  PlanSpec spec = handmadeSpec(Collective::Reduce, 2);
  std::vector<Program> programs = exchange();
  expectRefusal(refusal(spec, programs), {"rank 1", "step 1", "has no out buffer in reduce"});
  programs = exchange();
  programs[1].lanes[0].steps[1].targets = {local(Buffer::In, 0)};
  expectRefusal(refusal(handmadeSpec(Collective::AllReduce, 2), programs),
                {"rank 1", "step 1", "writes an input"});
}

TEST(Checker, ABarrierIsLeftAfterAllHaveEntered) {
  PlanSpec spec = handmadeSpec(Collective::Barrier, 3);
  spec.canonicalOrder = false;
  spec.messageChunks = 0;
  std::vector<Program> programs;
  for (int rank = 0; rank < 3; ++rank)  // only neighbours meet
    programs.push_back(
        {{{0, {{.targets = {signal((rank + 1) % 3)}}, {.sources = {signal((rank + 2) % 3)}}}}}});
  expectRefusal(refusal(spec, programs), {"rank 0 may leave before rank 1 has entered"});
}

TEST(Checker, StepsThatMakeNoSense) {
  const auto wrong = [](Step step) {
    PlanSpec spec = handmadeSpec(Collective::AllReduce, 2);
    std::vector<Program> programs = exchange();
    programs[0].lanes[0].steps.push_back(std::move(step));
    return refusal(spec, programs);
  };
  expectRefusal(wrong({}), {"step 2", "does nothing"});
  expectRefusal(wrong({.sources = {local(Buffer::In, 0)}}), {"writes none"});
  expectRefusal(wrong({.targets = {local(Buffer::Out, 0)}}), {"reads none"});
  expectRefusal(wrong({.sources = {local(Buffer::In, 1)}, .targets = {local(Buffer::Out, 0)}}),
                {"chunks 1 to 2 of 1"});
  expectRefusal(wrong({.targets = {signal(0)}}), {"to itself"});
  expectRefusal(wrong({.targets = {signal(2)}}), {"not one of 2"});
  expectRefusal(wrong({.targets = {signal(1), signal(1)}}), {"two messages"});
  expectRefusal(wrong({.sources = {mapped(1, Buffer::In, 0)}, .targets = {local(Buffer::Out, 0)}}),
                {"maps what is not mapped"});
}

}  // namespace
}  // namespace tutti::plan
