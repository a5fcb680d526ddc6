// The sample of sharded products as its user meets it: they are right, and send what the algebra
// says. The folder of the programs is the first argument of this test,
// docs/images/sharded-matmul.svg the second.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/parallel/samples/sample_programs.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string imagePath;
const tests::Arguments commandLine{{"FOLDER_OF_SAMPLES", &programs}, {"IMAGE", &imagePath}};

std::string withoutTimes(const std::string& text) {
  return std::regex_replace(text, std::regex(", [0-9]+ us|, worst difference [^\n]*"), "");
}

constexpr const char* kWorst = "worst difference (\\S+)\n";

/// Each way that it printed was right: exit code 0, and rounding only.
void expectRight(const Output& output, size_t ways, double bound, const std::string& what) {
  EXPECT_EQ(output.exitCode, 0) << what << "\n" << output.text;
  const std::vector<double> worst = numbers(output, kWorst);
  EXPECT_EQ(worst.size(), ways) << what << "\n" << output.text;
  for (const double difference : worst) EXPECT_LE(difference, bound) << what;
}

// An AllReduce sends twice what its halves do. Sizes that divide: all ranks send as much.
TEST(ShardedMatmul, SendsWhatTheAlgebraSays) {
  const double whole = 64 * 64 * 8;
  for (const int p : {1, 2, 4}) {
    const Output output = run("sharded_matmul --sizes I=64,J=64,K=64 --ranks " + std::to_string(p));
    expectRight(output, 5, 1e-12, std::to_string(p) + " ranks");
    const double half = whole * (p - 1) / p;
    EXPECT_EQ(numbers(output, "a rank sends (\\S+) bytes"),
              (std::vector<double>{0, half, 2 * half, half, half}));
    if (p == 1) continue;
    EXPECT_EQ(numbers(output, "1 AllGather of (\\d+) bytes over x, sends (\\d+),"),
              (std::vector<double>{whole, half, whole, half}));
    EXPECT_EQ(numbers(output, "1 AllReduce of (\\d+) bytes over x, sends (\\d+),"),
              (std::vector<double>{whole, 2 * half}));
    EXPECT_EQ(numbers(output, "1 ReduceScatter of (\\d+) bytes over x, sends (\\d+),"),
              (std::vector<double>{whole, half}));
  }
}

TEST(ShardedMatmul, IsRightInEveryWay) {
  const std::string even = "--sizes I=24,J=16,K=32", odd = "--sizes I=7,J=2,K=3";
  for (const std::string product :
       {"A[Ix,J] B[J,Kx] -> C[Ix,K]", "A[Jx,I] B[Kx,J] -> C[I,K]", "A[J,Ix] B[Jx,K] -> C[Kx,I]",
        "A[I,J]{Ux} B[J,K] -> C[I,Kx]", "A[I,Jx] B[J,K] -> C[I,K]{Ux}"})
    for (const std::string& sizes : {even, odd}) {
      const std::string command =
          "sharded_matmul --ranks 4 --ways 4 " + sizes + " '" + product + "'";
      const Output output = run(command);
      const auto ways = static_cast<size_t>(output.count("  multiply"));
      EXPECT_EQ(ways, product.ends_with("{Ux}") ? 1U : 4U) << output.text;
      expectRight(output, ways, 1e-12, command);
    }
  const Output two =
      run("sharded_matmul --ranks 4 --mesh x=2,y=2 " + even + " 'A[Ix,Jy] B[Jy,Kx] -> C[Ixy,K]'");
  expectRight(two, 1, 1e-12, "two axes");
  EXPECT_EQ(two.count(" over x, sends "), 1) << two.text;
  EXPECT_EQ(two.count(" over y, sends "), 1) << two.text;
  const Output single = run("sharded_matmul --ranks 4 --type float32 --sizes I=64,J=64,K=64");
  expectRight(single, 5, 1e-5, "float32");
  EXPECT_EQ(single.count("1 AllReduce of 16384 bytes"), 1) << single.text;
  const std::vector<double> worst = numbers(single, kWorst);
  EXPECT_GT(*std::ranges::max_element(worst), 1e-9) << "no float32 is that exact";
}

TEST(ShardedMatmul, DryRunsSaySo) {
  const std::string flags = " --ranks 4 --sizes I=30,J=22,K=14 --ways 3";
  const Output dry = run("sharded_matmul --device dry" + flags),
               host = run("sharded_matmul" + flags);
  EXPECT_EQ(dry.exitCode, 0) << dry.text;
  EXPECT_EQ(dry.text, withoutTimes(host.text));
  EXPECT_NE(dry.text, host.text);
}

std::string textOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The picture of docs/explanation/sharding.md.
TEST(ShardedMatmul, DrawsThePictureOfThePage) {
  const tests::TemporaryFolder folder;
  const std::string drawn = folder.path() / "cases.svg";
  const Output output = run("sharded_matmul --ranks 4 --svg " + drawn);
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(textOf(drawn), textOf(imagePath));
  expectRefused("sharded_matmul --ranks 2 --svg /nowhere/cases.svg", 1, "--svg: ");
}

TEST(ShardedMatmul, NamesWhatItRefuses) {
  const auto refused = [](const std::string& arguments, const std::string& named) {
    expectRefused("sharded_matmul --ranks 4 " + arguments, 1, named);
  };
  refused("'A[I,Jy] B[J,K] -> C[I,K]'", "there is no axis y in the mesh, but x");
  refused("'A[I,J,K] B[K] -> C[I,J]'", "A is no matrix");
  refused("--sizes I=4,J=4 'A[I,J] B[I,J] -> C[I,J]'", "this is no product of matrices");
  refused("--sizes I=4,J=4", "--sizes \"I=4,J=4\": the size of K is missing");
  refused("--mesh x=2,y=3", "--mesh x=2,y=3 has 6 ranks, not 4");
  refused("--mesh w=2,x=2,y=1,z=1", "a product names at most 3 axes");
  expectRefused("sharded_matmul --type int8", 2, "--type");
  expectRefused("sharded_matmul --ways 0", 2, "--ways");
}

}  // namespace
}  // namespace tutti::parallel
