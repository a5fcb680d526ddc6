// Rung 3: in deterministic mode every way to share out the state, on 1, 2 and 4 data-parallel
// ranks, gives the bits of one rank.

#include <gtest/gtest.h>

#include "parallel/checkpoint/names.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

RunOptions deterministic(int groups, int rounds, bool adam) {
  RunOptions options{
      .groups = groups, .rounds = rounds, .steps = 50, .adam = adam, .clip = adam ? 0.5 : 0.1};
  options.policy.deterministic = true;
  return options;
}

std::vector<Arrangement> layoutsUpToFour() {
  std::vector<Arrangement> all;
  for (const int ranks : {1, 2, 4})
    for (const Arrangement& layout : layouts(ranks)) all.push_back(layout);
  return all;
}

/// Against one rank, of which one step at least is clipped.
void climb(const RunOptions& options, const std::string& what) {
  const RunResult one = run(options)[0];
  EXPECT_EQ(one.losses.size(), static_cast<size_t>(options.steps));
  EXPECT_LT(one.losses.back(), one.losses.front() - (options.steps < 50 ? 0.1 : 0.5));
  EXPECT_GT(*std::max_element(one.norms.begin(), one.norms.end()), options.clip);
  for (const Arrangement& layout : layoutsUpToFour())
    expectWithin(sameBits(one, layout.name + what, under(layout, options)));
}

TEST(Rung3, SeveralMicroBatchesARank) { climb(deterministic(8, 1, true), ", AdamW"); }
TEST(Rung3, TwoRounds) { climb(deterministic(4, 2, false), ", SGD, 2 rounds"); }

// Ten steps of a Llama.
TEST(Rung3, Llama) {
  RunOptions options = deterministic(8, 1, true);
  options.model = kRunLlama;
  options.steps = 10;
  climb(options, ", llama");
}

// Of which not all labels count.
TEST(Rung3, Documents) {
  RunOptions options = deterministic(8, 1, true);
  options.documents = true;
  options.steps = 10;
  climb(options, ", documents");
}

// Gradients in float32 or bfloat16 too: products of bfloat16 round what they add up, and so do sums
// over micro-batches and ranks.
TEST(Rung3, BFloat16WithFloat32Masters) {
  RunOptions options = deterministic(8, 1, true);
  options.steps = 6;
  for (const DType gradients : {DType::Float32, DType::BFloat16})
    for (const RunModel& model : runModels()) {
      options.types = StoreTypes(DType::BFloat16, DType::Float32, gradients);
      options.model = model.options;
      climb(options, message(", ", model.name, ", bfloat16, gradients ", toString(gradients)));
    }
}

TEST(Rung3, TwoRuns) {
  for (const Arrangement& layout :
       {arrangement("dp=4"), arrangement("dp=2,fsdp=2", zero(3)),
        arrangement("fsdp=2,tp=2", zero(1), true), arrangement("tp=4")}) {
    RunOptions options = under(layout, deterministic(8, 1, true));
    if (layout.mesh.ranks(kTensorAxes) > 1) std::get<GptOptions>(options.model).heads = 4;
    options.steps = 10;
    expectWithin(sameBits(run(options)[0], layout.name + ", twice", options));
  }
}

// A run that stops after 25 steps and is resumed in the same layout, and one that never stops.
TEST(Rung3, Resumed) {
  for (const Arrangement& layout : {arrangement("dp=2"), arrangement("fsdp=4", zero(3)),
                                    arrangement("dp=2,tp=2", zero(0), true)}) {
    const tests::TemporaryFolder folder;
    RunOptions options = under(layout, deterministic(8, 1, true));
    RunResult whole = run(options)[0];
    options.steps = 25;
    options.saveTo = folder.path();
    run(options);
    options.loadFrom = latestCheckpoint(options.saveTo)->string();
    options.saveTo.clear();
    whole.losses.erase(whole.losses.begin(), whole.losses.begin() + 25);
    whole.norms.erase(whole.norms.begin(), whole.norms.begin() + 25);
    expectWithin(sameBits(whole, layout.name + ", resumed", options));
  }
}

// With the same ranks of tensor parallelism, other axes change no bit.
TEST(Rung3, DataParallelRanksOfTensorParallelOnes) {
  RunOptions options = under(arrangement("tp=2", zero(0), true), deterministic(4, 1, true));
  options.steps = 10;
  const RunResult two = run(options)[0];
  for (const Arrangement& layout :
       {arrangement("dp=2,tp=2", zero(0), true), arrangement("dp=4,tp=2", zero(0), true),
        arrangement("fsdp=2,tp=2", zero(1), true), arrangement("dp=2,fsdp=2,tp=2", zero(3), true)})
    expectWithin(sameBits(two, layout.name + " to tp=2", under(layout, options)));
}

TEST(Rung3, SeesOneBit) {
  RunOptions options = deterministic(4, 1, false);
  options.steps = 1;
  RunResult one = run(options)[0];
  EXPECT_TRUE(sameBits(one, "one rank", options).within());
  one.weights[3][5] ^= 1;
  const Finding finding = sameBits(one, "one rank", options);
  EXPECT_FALSE(finding.within());
  EXPECT_EQ(finding.where, "the weights of " + one.names[3]);
}

}  // namespace
}  // namespace tutti::parallel
