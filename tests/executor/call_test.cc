// Calls and exchanges as values: what follows from their fields, and what is refused.

#include "src/executor/call.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "src/base/transfer_key.h"
#include "src/executor/exchange.h"

namespace tutti::executor {
namespace {

CollectiveCall callOf(uint64_t count, DataType type = DataType::Float32) {
  return {.facts = {.collective = plan::Collective::AllGather, .type = type, .count = count}};
}

template <class Function>
ErrorCode codeOf(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::Internal;  // none
}

TEST(CallFacts, CountTheElementsOfABlock) {
  CallFacts facts{.count = 10};
  EXPECT_EQ(facts.blockCount(4), 10u);
  facts.blocksHash = 1;  // `count` is of all blocks then
  EXPECT_EQ(facts.blockCount(4), 3u);
  EXPECT_EQ(facts.blockCount(5), 2u);
  facts.count = 0;
  EXPECT_EQ(facts.blockCount(4), 0u);
  facts.count = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(facts.blockCount(1), facts.count);
}

// Each field makes another fingerprint; none looks like a transfer's.
TEST(CallFacts, DifferInTheirFingerprints) {
  const CallFacts one = callOf(10).facts;
  std::vector<CallFacts> others(11, one);
  others[0].collective = plan::Collective::AllReduce;
  others[1].type = DataType::Int32;
  others[2].op = ReduceOp::Max;
  others[3].deterministic = true;
  others[4].root = 1;
  others[5].count = 11;
  others[6].blocksHash = 1;
  others[7].planHash = 1;
  others[8].algorithm = plan::Algorithm::DoubleTree;
  others[9].reduction[0] = 1;
  others[10].reduction[1] = 1;
  for (const CallFacts& other : others) {
    EXPECT_NE(other.fingerprint(), one.fingerprint()) << other.describe();
    EXPECT_EQ(other.fingerprint() & base::kExchangeBit, 0u);
  }
}

TEST(CollectiveCall, HasTheBytesOfItsLargerBuffer) {
  plan::PlanSpec spec{.collective = plan::Collective::AllGather, .ranks = 3};
  EXPECT_EQ(callOf(5).bufferBytes(spec), 60u);
  EXPECT_EQ(callOf(0).bufferBytes(spec), 0u);
  spec.collective = plan::Collective::Broadcast;
  EXPECT_EQ(callOf(5, DataType::Float64).bufferBytes(spec), 40u);
}

TEST(CollectiveCall, FitsAPlanOrIsRefused) {
  plan::PlanSpec spec{.collective = plan::Collective::AllGather, .ranks = 2};
  CollectiveCall call = callOf(4);
  EXPECT_NO_THROW(call.requireFits(spec));
  call.facts.op = ReduceOp::BitAnd;  // of whole numbers alone
  EXPECT_EQ(codeOf([&] { call.requireFits(spec); }), ErrorCode::InvalidArgument);
  call = callOf(4);
  const auto blocks = [](size_t count) {
    return std::make_shared<const std::vector<plan::Block>>(count);
  };
  call.blocks = blocks(2);
  EXPECT_EQ(codeOf([&] { call.requireFits(spec); }), ErrorCode::InvalidArgument);
  spec.unevenSafe = true;
  EXPECT_NO_THROW(call.requireFits(spec));
  for (const size_t count : {0, 1, 3}) {
    call.blocks = blocks(count);
    EXPECT_EQ(codeOf([&] { call.requireFits(spec); }), ErrorCode::InvalidArgument) << count;
  }
}

class Exchanges : public testing::Test {
 protected:
  std::byte memory_[64];
};

TEST_F(Exchanges, AreDescribedByTheirSums) {
  const Exchange exchange{.sends = {{1, memory_, 8}, {2, memory_, 24}},
                          .receives = {{1, memory_ + 32, 0}}};
  EXPECT_EQ(exchange.facts().describe(), "2 sends of 32 bytes and 1 receive of 0 bytes");
}

TEST_F(Exchanges, MatchThemselves) {
  const auto check = [](const Exchange& exchange) {
    return codeOf([&] { requireSelfMatches(exchange, 0); });
  };
  const Transfer toSelf{0, memory_, 8, DataType::Int64};
  EXPECT_EQ(check({.sends = {toSelf, {1, memory_, 8}}, .receives = {toSelf}}), ErrorCode::Internal);
  EXPECT_EQ(check({.sends = {toSelf}}), ErrorCode::InvalidUsage);
  EXPECT_EQ(check({.sends = {toSelf}, .receives = {{0, memory_, 8, DataType::Float64}}}),
            ErrorCode::InvalidUsage);
  EXPECT_EQ(check({.sends = {toSelf}, .receives = {{0, memory_, 16, DataType::Int64}}}),
            ErrorCode::InvalidUsage);
}

TEST_F(Exchanges, ReceiveIntoMemoryOfTheirOwn) {
  const auto check = [](const Exchange& exchange) {
    return codeOf([&] { requireDisjoint(exchange, 0); });
  };
  EXPECT_EQ(check({.sends = {{1, memory_, 8}, {2, memory_, 8}}}), ErrorCode::Internal);
  EXPECT_EQ(check({.sends = {{1, memory_, 8}}, .receives = {{1, memory_ + 8, 8}}}),
            ErrorCode::Internal);
  EXPECT_EQ(check({.sends = {{1, memory_, 9}}, .receives = {{1, memory_ + 8, 8}}}),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(check({.receives = {{1, memory_, 32}, {2, memory_ + 16, 0}, {3, memory_ + 31, 4}}}),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(check({.receives = {{1, memory_, 0}, {2, memory_, 0}}}), ErrorCode::Internal);
}

}  // namespace
}  // namespace tutti::executor
