#include "src/plan/holders.h"

#include <gtest/gtest.h>

#include "tests/plan/handmade.h"

namespace tutti::plan {
namespace {

using test::handmadeSpec;

constexpr int kRank = 1;

/// The holder of the first step of the first lane.
std::optional<Port> holder(const Program& program, bool inPlace = false,
                           Collective collective = Collective::AllReduce) {
  const Holders holders = holdersOf(handmadeSpec(collective, 3), program, kRank, inPlace);
  return holders.at(0).at(0);
}

const Step kSend{.sources = {local(Buffer::In, 2)}, .targets = {channel(0, 2)}};
const Step kKeepAndPass{.sources = {channel(0, 2)},
                        .targets = {local(Buffer::Out, 2), channel(2, 2)}};
Step writes(Buffer buffer, uint32_t chunk, uint32_t chunks = 1) {
  return {.sources = {channel(0, chunk, chunks)}, .targets = {local(buffer, chunk, chunks)}};
}

TEST(Holders, AreTheInputThatIsSentAndTheOutputThatIsPassedOn) {
  EXPECT_EQ(holder({{{0, {kSend}}}}), local(Buffer::In, 2));
  EXPECT_EQ(holder({{{0, {kKeepAndPass}}}}), local(Buffer::Out, 2));
  const Step sum{.sources = {channel(0, 2), local(Buffer::In, 2)},
                 .targets = {channel(2, 2), local(Buffer::Out, 2)},
                 .fold = Fold::Listed,
                 .completes = true};
  EXPECT_EQ(holder({{{0, {sum}}}}), local(Buffer::Out, 2));
}

TEST(Holders, AreNoneWhereNothingIsSentOrNothingHoldsIt) {
  EXPECT_FALSE(holder({{{0, {writes(Buffer::Out, 2)}}}}));
  const Step signals{.sources = {local(Buffer::In, 2)},
                     .targets = {local(Buffer::Out, 2), signal(0)}};
  EXPECT_FALSE(holder({{{0, {signals}}}}));
  Step sum{.sources = {channel(0, 2), local(Buffer::In, 2)},
           .targets = {channel(2, 2)},
           .fold = Fold::Listed};
  EXPECT_FALSE(holder({{{0, {sum}}}}));
  Step divided = kSend;
  divided.completes = true;
  EXPECT_FALSE(holder({{{0, {divided}}}}));
}

TEST(Holders, AreNotScratchThatTheNextRoundWrites) {
  Step pass = kKeepAndPass;
  pass.targets[0].buffer = Buffer::Scratch;
  EXPECT_FALSE(holder({{{0, {pass}}}}));
  Step send = kSend;
  send.sources[0].buffer = Buffer::Scratch;
  EXPECT_FALSE(holder({{{0, {send}}}}));
}

TEST(Holders, AreNotWrittenLater) {
  EXPECT_FALSE(holder({{{0, {kKeepAndPass, writes(Buffer::Out, 2)}}}}));
  EXPECT_FALSE(holder({{{0, {kKeepAndPass, writes(Buffer::Out, 1, 2)}}}}));
  EXPECT_TRUE(holder({{{0, {kKeepAndPass, writes(Buffer::Out, 1)}}}}));
  const Holders second = holdersOf(handmadeSpec(Collective::AllReduce, 3),
                                   {{{0, {writes(Buffer::Out, 2), kKeepAndPass}}}}, kRank, false);
  EXPECT_EQ(second[0][1], local(Buffer::Out, 2));
}

// Nobody knows when another lane writes.
TEST(Holders, AreNotWrittenByAnotherLane) {
  EXPECT_FALSE(holder({{{0, {kKeepAndPass}}, {1, {writes(Buffer::Out, 2)}}}}));
  EXPECT_TRUE(holder({{{0, {kKeepAndPass}}, {1, {writes(Buffer::Out, 3)}}}}));
}

TEST(Holders, InPlaceAreNotWrittenAsTheOtherBuffer) {
  const Program sum{{{0, {kSend, writes(Buffer::Out, 2)}}}};
  EXPECT_TRUE(holder(sum));
  EXPECT_FALSE(holder(sum, true));
  // A rank's input is its own block of the output.
  const Step own{.sources = {local(Buffer::In, 0)}, .targets = {channel(0, 0)}};
  EXPECT_FALSE(holder({{{0, {own, writes(Buffer::Out, kRank)}}}}, true, Collective::AllGather));
  EXPECT_TRUE(holder({{{0, {own, writes(Buffer::Out, 0)}}}}, true, Collective::AllGather));
}

}  // namespace
}  // namespace tutti::plan
