// The MLP of tensor parallelism as its user meets it: the losses of one rank, and collectives that
// can be counted. The folder of the programs is the argument of this test.

#include <map>

#include "tests/parallel/samples/sample_programs.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

const tests::Arguments commandLine{{"FOLDER_OF_SAMPLES", &programs}};

// Sums of 128 products, whose order depends on the number of ranks, over 40 steps.
TEST(TensorParallelMlp, HasTheLossesOfOneRank) {
  for (const auto& [type, bound] :
       std::map<std::string, double>{{"float64", 1e-12}, {"float32", 1e-4}}) {
    const std::string flags = "tensor_parallel_mlp --steps 40 --type " + type + " --ranks ";
    const auto one = losses(run(flags + "1"));
    ASSERT_EQ(one.size(), 40U);
    EXPECT_LT(std::stod(one.back()), std::stod(one.front()) / 2);
    for (const std::string ranks : {"2", "3", "4", "2 --sp", "3 --sp", "4 --sp"})
      expectClose(losses(run(flags + ranks)), one, bound, type + " on " + ranks);
  }
}

TEST(TensorParallelMlp, CountsItsCollectives) {
  const auto lines = [](const std::string& flags) {
    const Output output = run("tensor_parallel_mlp --steps 2 --rows 50 --width 16 " + flags);
    EXPECT_EQ(output.exitCode, 0) << output.text;
    const size_t at = output.text.find("forward ");
    return at == std::string::npos ? output.text : output.text.substr(at);
  };
  const std::string reduced = "1 AllReduce of 6400 bytes\n";  // 50 x 16 float64
  const std::string cut = "1 ReduceScatter of 6400 bytes, ";
  for (const std::string device : {"--device host ", "--device dry "}) {
    EXPECT_EQ(lines(device + "--ranks 4"), "forward   " + reduced + "backward  " + reduced);
    EXPECT_EQ(lines(device + "--ranks 4 --sp"),
              "forward   " + cut + "1 AllGather of 6400 bytes\nbackward  " + cut +
                  "2 AllGathers of 12800 bytes in all\nstep      1 AllReduce of 128 bytes\n");
    EXPECT_EQ(lines(device + "--ranks 1 --sp"), "forward   nothing\nbackward  nothing\n");
  }
  EXPECT_EQ(lines("--ranks 2 --type float32"),
            "forward   1 AllReduce of 3200 bytes\nbackward  1 AllReduce of 3200 bytes\n");
}

}  // namespace
}  // namespace tutti::parallel
