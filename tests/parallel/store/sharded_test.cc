// ZeRO, FSDP and hybrid sharding: what each policy sends and what it holds is counted; bfloat16,
// offloaded state, weights that come and go. That gradients and steps are one rank's is the parity
// ladder's (parity/).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/support/layouts.h"
#include "tests/parallel/support/runs.h"

namespace tutti::parallel {
namespace {

// bfloat16 weights made from float32 masters: every policy computes with the same weights.
TEST(Sharded, BFloat16WeightsHaveFloat32Masters) {
  RunOptions options{.types = DType::BFloat16, .groups = 4, .steps = 8, .adam = true};
  options.policy.deterministic = true;
  const RunResult one = run(options)[0];
  EXPECT_LT(one.losses.back(), one.losses.front() - 0.2);
  for (const Arrangement& layout : layouts(4)) {
    const RunResult many = run(under(layout, options))[0];
    EXPECT_EQ(many.losses, one.losses) << layout.name;
    EXPECT_EQ(many.weights, one.weights) << layout.name;
  }
}

// State in other memory or in files: the same bits, and less gradient where it is computed with.
TEST(Sharded, OffloadedStateGivesTheSameBits) {
  const auto policy = [](Place place, int stage) {
    ShardPolicy made = zero(stage);
    made.deterministic = true;
    made.offload = {.optimizer = place,
                    .gradients = stage >= 2 ? place : Place::Device,
                    .parameters = stage == 3 ? place : Place::Device,
                    .folder = place == Place::File ? "/tmp" : ""};
    return made;
  };
  for (const DType type : {DType::Float32, DType::BFloat16})
    for (const int rounds : {1, 2}) {
      RunOptions options{.types = type, .rounds = rounds, .steps = 4, .adam = true};
      options.policy.deterministic = true;
      const RunResult one = run(options)[0];
      for (const MeshShape& shape : {mesh(1, 2), mesh(2, 2)})
        for (const int stage : {1, 2, 3}) {
          options.mesh = shape;
          options.policy = policy(Place::Device, stage);
          const StoreMemory there = run(options)[0].memory;
          for (const Place place : {Place::Host, Place::File}) {
            options.policy = policy(place, stage);
            const RunResult many = run(options)[0];
            EXPECT_EQ(many.losses, one.losses) << stage;
            EXPECT_EQ(many.norms, one.norms) << stage;
            EXPECT_EQ(many.weights, one.weights) << stage;
            EXPECT_EQ(many.gradients, one.gradients) << stage;
            EXPECT_LE(many.memory.gradientShards, there.gradientShards) << stage;
          }
        }
    }
}

// bfloat16 all through: 6 bytes a parameter with momentum, as the literature counts.
TEST(Sharded, GradientsMayBeBFloat16) {
  const StoreTypes types(DType::Float32, DType::Float32, DType::BFloat16);
  RunOptions options{.types = types, .steps = 10};
  const RunResult one = run({.steps = 10})[0];
  for (const int stage : {0, 2}) {
    options.mesh = mesh(1, 2);
    options.policy = zero(stage);
    const RunResult narrow = run(options)[0];
    EXPECT_EQ(narrow.gradients[0].size() * 2, one.gradients[0].size());
    EXPECT_NE(narrow.losses, one.losses);
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(narrow.losses[i], one.losses[i], 0.05) << "step " << i;
  }
}

/// Elements of a unit's full buffer and of one rank's block, by the definition: each piece starts
/// at a multiple of 32.
struct Sizes {
  size_t full = 0, block = 0;
};
std::vector<Sizes> unitSizes(const GptOptions& model, int shards) {
  std::vector<Sizes> sizes(static_cast<size_t>(model.layers) + 2);
  HostKernels kernels;
  DeviceMesh alone;
  Gpt gpt(model);
  ParameterStore store(alone, kernels, ShardPolicy::ddp(), DType::Float32);
  gpt.declare(store);
  for (size_t p = 0; p < store.parameterCount(); ++p) {
    const Shape& shape = store.parameter(p).global;
    const auto row = static_cast<size_t>(shape.count() / shape[0]);
    const auto rows = static_cast<size_t>((shape[0] + shards - 1) / shards);
    Sizes& unit = sizes[static_cast<size_t>(store.parameter(p).unit)];
    unit.full += (static_cast<size_t>(shape.count()) + 31) / 32 * 32;
    unit.block += (row * rows + 31) / 32 * 32;
  }
  return sizes;
}

// With m micro-batches a rank in r rounds: 2 m AllGathers and r ReduceScatters per unit when it
// reshards after forward; 1 and 1 when it never does and one round is the step.
TEST(Sharded, CollectivesOfAStepAreCounted) {
  constexpr int kShards = 2, kUnits = 4;
  const std::vector<Sizes> sizes = unitSizes(kSmallGpt, kShards);
  size_t blocks = 0;
  for (const Sizes& unit : sizes) blocks += unit.block * kShards * sizeof(float);
  const auto counted = [](const ShardPolicy& policy, const MeshShape& shape, int groups,
                          int rounds) {
    // The second step: the first finds weights that were just made.
    return run({.mesh = shape, .policy = policy, .groups = groups, .rounds = rounds, .steps = 2})[0]
        .counters;
  };
  for (const int microBatches : {1, 2})
    for (const int rounds : {1, 2}) {
      const int groups = microBatches * kShards, all = microBatches * rounds;
      const auto times = static_cast<size_t>(all);
      StoreCounters c = counted(fsdp(Reshard::AfterForward), mesh(1, kShards), groups, rounds);
      EXPECT_EQ(c.allGather, (CollectiveCount{2 * all * kUnits, 2 * times * blocks}));
      EXPECT_EQ(c.reduceScatter,
                (CollectiveCount{rounds * kUnits, static_cast<size_t>(rounds) * blocks}));
      EXPECT_EQ(c.allReduce, CollectiveCount{});
      // Of a pass through all units only the first is not gathered ahead; and going back, unit 0,
      // which is asked for first because it is the output map too, and the last.
      EXPECT_EQ(c.prefetched, all * (kUnits - 1 + kUnits - 2));

      c = counted(fsdp(Reshard::Never), mesh(1, kShards), groups, rounds);
      EXPECT_EQ(c.allGather, (CollectiveCount{kUnits, blocks}));
      EXPECT_EQ(c.reduceScatter.calls, rounds * kUnits);

      c = counted(fsdp(Reshard::AfterBackward, 2), mesh(1, kShards), groups, rounds);
      EXPECT_EQ(c.allGather.calls, (all + 1) / 2 * kUnits);
    }
  for (const int stage : {1, 2}) {
    const StoreCounters c = counted(zero(stage), mesh(1, kShards), 4, 2);
    EXPECT_EQ(c.allGather, (CollectiveCount{kUnits, blocks})) << stage;
    EXPECT_EQ(c.reduceScatter, (CollectiveCount{2 * 3, 2 * blocks})) << stage;  // 3 buckets
    EXPECT_EQ(c.allReduce, CollectiveCount{}) << stage;
  }
  const StoreCounters hybrid = counted(zero(3), mesh(2, kShards), 4, 1);
  EXPECT_EQ(hybrid.reduceScatter, (CollectiveCount{kUnits, blocks}));
  EXPECT_EQ(hybrid.allReduce, (CollectiveCount{kUnits, blocks / kShards}));
  const StoreCounters ddp = counted(zero(0), mesh(2, kShards), 4, 2);
  EXPECT_EQ(ddp.allReduce.calls, 2 * 3);
  EXPECT_EQ(ddp.allGather, CollectiveCount{});
  EXPECT_EQ(ddp.reduceScatter, CollectiveCount{});
  const StoreCounters alone = counted(zero(3), mesh(1, 1), 4, 2);
  EXPECT_EQ(alone.allGather, CollectiveCount{});
  EXPECT_EQ(alone.reduceScatter, CollectiveCount{});
}

// What is shared out is there 1/N of it; of what is not, all.
TEST(Sharded, MemoryIsWhatThePolicySays) {
  constexpr int kShards = 4;
  const std::vector<Sizes> sizes = unitSizes(kSmallGpt, kShards);
  size_t full = 0, block = 0, most = 0;
  for (const Sizes& unit : sizes) {
    full += unit.full * sizeof(float);
    block += unit.block * sizeof(float);
    most = std::max(most, unit.full * sizeof(float));
  }
  // The optimizer's state is of exactly the rows that a rank holds.
  const auto memory = [&](const ShardPolicy& policy) {
    return run({.mesh = mesh(1, kShards), .policy = policy, .steps = 3, .adam = true})[0].memory;
  };
  const StoreMemory ddp = memory(zero(0)), zero1 = memory(zero(1)), zero2 = memory(zero(2)),
                    zero3 = memory(zero(3));
  EXPECT_EQ(ddp.weights, full);
  EXPECT_EQ(ddp.gradientShards, full);  // in place
  EXPECT_EQ(ddp.gradients, 0u);
  EXPECT_EQ(ddp.masters, 0u);
  EXPECT_EQ(ddp.staging, 0u);
  EXPECT_NEAR(static_cast<double>(ddp.optimizer), 2.0 * static_cast<double>(full), 4000);
  for (const StoreMemory& shared : {zero1, zero2, zero3})
    EXPECT_NEAR(static_cast<double>(shared.optimizer), 2.0 * static_cast<double>(block), 4000);
  EXPECT_EQ(zero1.weights, full);
  EXPECT_EQ(zero1.gradientShards, full);  // the sums in place of what was added
  EXPECT_EQ(zero1.gradients, 0u);
  EXPECT_EQ(zero2.gradientShards, block);
  EXPECT_EQ(zero3.gradientShards, block);
  EXPECT_EQ(zero2.weights, full);
  EXPECT_LT(zero2.gradients, full);  // of the buckets that are filled at one time
  EXPECT_EQ(zero3.masters, block);
  // Of unit 0, which is the output map too, and one block after the other; backward fills the final
  // norm's gradients before there is a block's buffer that they could use.
  const size_t alive = sizes.front().full * sizeof(float) + most;
  EXPECT_EQ(zero3.weights, alive);
  EXPECT_EQ(zero3.gradients, alive + sizes.back().full * sizeof(float));
}

// Weights are there while their unit is acquired, and no longer.
TEST(Sharded, WeightsThatAreNotAcquiredAreRefused) {
  const auto refusal = [](DeviceMesh& mesh) -> std::string {
    HostKernels kernels;
    Parameter first{.name = "first", .global = {5, 3}, .init = {Init::Normal, 1}, .unit = 0};
    Parameter second{.name = "second", .global = {1}, .init = {Init::One}, .unit = 1};
    ParameterStore store(mesh, kernels, fsdp(Reshard::AfterForward), DType::Float32);
    store.add(first);
    store.add(second);
    store.initialize(3);
    const auto said = [&](const Parameter& parameter) -> std::string {
      try {
        store.weight(parameter);
        return "";
      } catch (const Error& error) {
        return error.what();
      }
    };
    EXPECT_NE(said(first).find("first"), std::string::npos);
    // In any order, and twice: what was gathered ahead for nothing is forgotten.
    for (const UnitId unit : {0, 0, 1, 0}) {
      store.acquire(unit, Phase::Forward);
      const Parameter& other = unit == 0 ? second : first;
      EXPECT_EQ(said(unit == 0 ? first : second), "");
      EXPECT_NE(said(other), "");
      EXPECT_EQ(store.weight(unit == 0 ? first : second).shape,
                unit == 0 ? first.global : second.global);
      store.release(unit, Phase::Forward);
    }
    EXPECT_NE(said(first), "");
    EXPECT_THROW(store.release(0, Phase::Forward), Error);
    return "";
  };
  onRanks(mesh(1, 3), false, refusal);
}

// A unit that was gathered ahead, and whose weights then changed, is gathered again.
TEST(Sharded, WhatWasGatheredBeforeAStepIsForgotten) {
  const auto changed = [](DeviceMesh& mesh) {
    HostKernels kernels;
    Parameter first{.name = "first", .global = {4}, .init = {Init::One}, .unit = 0};
    Parameter second{.name = "second", .global = {4}, .init = {Init::One}, .unit = 1};
    ParameterStore store(mesh, kernels, fsdp(Reshard::AfterForward), DType::Float64);
    store.add(first);
    store.add(second);
    store.initialize(3);
    store.beginStep(1);
    store.acquire(0, Phase::Forward);  // and begins to gather the other
    store.release(0, Phase::Forward);
    for (const Parameter* parameter : {&second, &first}) {
      std::fill_n(store.gradient(*parameter, 0).buffer.as<double>(), 4, 1.0);
      store.weightsDone(parameter->unit, 0);
    }
    const auto sgd = makeSgd({});
    store.step(*sgd, 0.25);
    store.acquire(1, Phase::Forward);
    const double value = store.weight(second).as<double>()[3];
    store.release(1, Phase::Forward);
    return value;
  };
  EXPECT_EQ(onRanks(mesh(1, 2), false, changed), (std::vector<double>{0.5, 0.5}));
}

// More ranks than rows: some hold nothing of a parameter.
TEST(Sharded, RanksMayHoldNothing) {
  const auto held = [](DeviceMesh& mesh) {
    HostKernels kernels;
    Parameter tiny{.name = "tiny", .global = {2, 3}, .init = {Init::Normal, 1}, .unit = 0};
    ParameterStore store(mesh, kernels, fsdp(Reshard::AfterForward), DType::Float64);
    store.add(tiny);
    store.initialize(3);
    const int64_t mine = store.master(tiny).count();
    store.beginStep(1);
    store.acquire(0, Phase::Backward);
    const Tensor weight = store.weight(tiny);
    const std::vector<double> all(weight.as<double>(), weight.as<double>() + 6);
    const GradientSlot slot = store.gradient(tiny, 0);
    for (int i = 0; i < 6; ++i) slot.buffer.as<double>()[i] = i;
    store.weightsDone(0, 0);
    store.release(0, Phase::Backward);
    EXPECT_NEAR(store.clip(0), 4 * std::sqrt(55.0), 1e-12);  // of 4 times 0, 1, 2, 3, 4, 5
    const auto sgd = makeSgd({});
    store.step(*sgd, 0.5);
    store.acquire(0, Phase::Forward);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(store.weight(tiny).as<double>()[i], all[static_cast<size_t>(i)] - 2.0 * i);
    store.release(0, Phase::Forward);
    return mine;
  };
  EXPECT_EQ(onRanks(mesh(1, 4), false, held), (std::vector<int64_t>{3, 3, 0, 0}));
}

TEST(Sharded, PoliciesThatMakeNoSenseAreRefused) {
  const auto said = [](const ShardPolicy& policy) -> std::string {
    try {
      policy.check();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
  };
  EXPECT_NE(said({.gradients = true}).find("optimizer"), std::string::npos);
  EXPECT_NE(said({.optimizer = true, .parameters = true}).find("gradients"), std::string::npos);
  EXPECT_NE(said({.shard = {Axis::Data}}).find("dp"), std::string::npos);
  EXPECT_NE(said({.reshard = {Reshard::AfterBackward, 0}}).find("at least 1"), std::string::npos);
  ShardPolicy outside = ShardPolicy::zero(1);
  outside.shard = {Axis::Data};
  outside.replicate = {Axis::Fsdp};
  EXPECT_EQ(said(outside), "");
  outside.deterministic = true;
  EXPECT_NE(said(outside).find("nearer"), std::string::npos);
  EXPECT_NE(said({.optimizer = true, .offload = {.gradients = Place::Host}}).find("gradients"),
            std::string::npos);
  EXPECT_NE(said({.offload = {.parameters = Place::Host}}).find("parameters"), std::string::npos);
  EXPECT_NE(said({.offload = {.optimizer = Place::File}}).find("folder"), std::string::npos);
  EXPECT_NE(said({.offload = {.partBytes = 7}}).find("parts of 7 bytes"), std::string::npos);
  EXPECT_THROW(ShardPolicy::zero(4), Error);
  EXPECT_THROW(ShardPolicy::zero(-1), Error);
}

}  // namespace
}  // namespace tutti::parallel
