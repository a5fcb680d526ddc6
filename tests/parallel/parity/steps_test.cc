// Rung 4: twenty steps of SGD in float32 with one rank's losses, and a longer run of AdamW in
// bfloat16 within what other seeds change.

#include <gtest/gtest.h>

#include "tests/parallel/parity/rungs.h"

namespace tutti::parallel {
namespace {

constexpr GptOptions kGpt{.context = 23, .layers = 2, .width = 32, .heads = 4};
constexpr LlamaOptions kLlama{.context = 23,
                              .layers = 2,
                              .width = 32,
                              .heads = 4,
                              .kvHeads = 2,
                              .inner = 45,
                              .ropeBase = 100};

void climb(const std::string& name, const std::string& heads, const ModelOptions& model) {
  const RunOptions options{.model = model, .steps = 20};
  const RunResult one = run(options)[0];
  EXPECT_LT(one.losses.back(), one.losses.front() - 0.5);
  for (const Arrangement& layout : layoutsOfEachKind(heads))
    expectWithin(sameLosses(one, layout.name + ", " + name, under(layout, options)));
}

TEST(Rung4, TwentyStepsOfSgdGpt) { climb("gpt", "tp=4", kGpt); }
TEST(Rung4, TwentyStepsOfSgdLlama) { climb("llama", "tp=2,rep=2", kLlama); }

}  // namespace
}  // namespace tutti::parallel
