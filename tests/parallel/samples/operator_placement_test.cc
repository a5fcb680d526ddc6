// The sample of operators on different ranks as its user meets it. The folder of the programs is
// the argument of this test.

#include "tests/parallel/samples/sample_programs.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

const tests::Arguments commandLine{{"FOLDER_OF_SAMPLES", &programs}};

// Each operator on a rank of its own: the losses of one rank, and half of the AllReduces of blocks
// that are cut, in 4 micro-batches of 2 blocks: 1 for the embeddings and 1 for the head's gradient
// in each, and 1 for gradients in a step.
TEST(OperatorPlacement, PutsOperatorsOnDifferentRanks) {
  const Output one = run("operator_placement --steps 6");
  const Output placed = run("operator_placement --steps 6 --ranks 2");
  const Output cut = run("operator_placement --steps 6 --ranks 2 --cut");
  ASSERT_EQ(losses(one).size(), 6U);
  EXPECT_LT(std::stod(losses(one).back()), std::stod(losses(one).front()) - 1);
  expectClose(losses(placed), losses(one), 1e-12, "placed");
  expectClose(losses(cut), losses(one), 1e-12, "cut");
  const std::string calls = "AllReduce along \\{tp\\} .* ([0-9]+) calls";
  EXPECT_EQ(numbers(placed, calls), std::vector<double>{4 * (2 + 2 * 2) + 1}) << placed.text;
  EXPECT_EQ(numbers(cut, calls), std::vector<double>{4 * (2 + 2 * 4) + 1}) << cut.text;
  EXPECT_EQ(placed.count("attention  rank 0"), 1) << placed.text;
  EXPECT_EQ(placed.count("MLP        rank 1"), 1) << placed.text;
  EXPECT_EQ(one.count("MLP        rank 0"), 1) << one.text;
  EXPECT_EQ(use(run("operator_placement --ranks 2 --device dry")), use(placed));
  expectRefused("operator_placement --ranks 3", 1, "there are two operators to place");
}

}  // namespace
}  // namespace tutti::parallel
