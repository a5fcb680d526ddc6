// Rung 6: whole trainings compare replicas after every step (tests/parallel/support/runs.cc), and
// that sees one bit, wherever it is.

#include <gtest/gtest.h>

#include "tests/parallel/parity/rungs.h"

namespace tutti::parallel {
namespace {

constexpr LlamaOptions kLlama{
    .context = 8, .layers = 2, .width = 16, .heads = 4, .kvHeads = 2, .inner = 13};

// What data-parallel ranks hold of all weights, and what ranks of tensor parallelism hold of those
// that are not cut.
TEST(Rung6, SeesOneBitOfAMaster) {
  for (const std::string name : {"tokens", "blocks.1.attention.key.weight", "finalNorm.weight"})
    expectWithin(corruptedReplica(arrangement("dp=3"), kLlama, name, Copy::Master));
  for (const std::string name : {"finalNorm.weight", "blocks.1.attention.key.weight"})
    for (const Arrangement& layout :
         {arrangement("tp=2,rep=2"), arrangement("tp=2,rep=2", zero(0), true),
          arrangement("fsdp=2,tp=2,rep=2", zero(1)), arrangement("fsdp=2,tp=2,rep=2", zero(3))})
      expectWithin(corruptedReplica(layout, kLlama, name, Copy::Master));
  for (const int stage : {1, 2, 3})
    expectWithin(corruptedReplica(arrangement("dp=2,fsdp=2", zero(stage)), kLlama,
                                  "blocks.0.mlp.down.weight", Copy::Master));
  for (const std::string name : {"tokens", "blocks.1.attention.key.weight", "finalNorm.weight"})
    for (const Arrangement& layout : {arrangement("cp=3"), arrangement("cp=2,fsdp=2", zero(3)),
                                      exchanging(arrangement("cp=2"))})
      expectWithin(corruptedReplica(layout, kLlama, name, Copy::Master));
}

// A tied embedding that the first stage and the last have.
TEST(Rung6, SeesOneBitOfATiedWeight) {
  const GptOptions gpt{.context = 8, .layers = 2, .width = 16, .heads = 4};
  expectWithin(corruptedReplica(arrangement("pp=2"), gpt, "tokens", Copy::Master));
  expectWithin(corruptedReplica(arrangement("pp=2,tp=2"), gpt, "positions", Copy::Master));
}

// Where weights stay gathered, each rank has copies of the others' rows.
TEST(Rung6, SeesOneBitOfAGatheredWeight) {
  for (const std::string mesh : {"fsdp=2", "fsdp=3", "dp=2,fsdp=2", "fsdp=2,tp=2,rep=2"})
    for (const int stage : {1, 2})
      for (const std::string name : {"tokens", "blocks.0.mlp.down.weight", "output"})
        expectWithin(
            corruptedReplica(arrangement(mesh, zero(stage)), kLlama, name, Copy::Gathered));
}

// Of a weight that nobody else holds no other rank knows.
TEST(Rung6, WhatOneRankHasAloneIsNoReplica) {
  EXPECT_FALSE(
      corruptedReplica(arrangement("tp=2,rep=2"), kLlama, "blocks.0.mlp.down.weight", Copy::Master)
          .within());
  EXPECT_FALSE(
      corruptedReplica(arrangement("fsdp=2", zero(3)), kLlama, "tokens", Copy::Master).within());
}

}  // namespace
}  // namespace tutti::parallel
