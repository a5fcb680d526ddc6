// The samples of tensor parallelism as their user meets them: sharded products that send what the
// algebra says and are right, an MLP and a transformer with the losses of one rank, and a limit on
// memory that is kept. The folder of the programs is the first argument of this test,
// docs/reference/samples.md the second.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

#include "tests/parallel/samples/sample_output.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string programs, readmePath;
const tests::Arguments commandLine{{"FOLDER_OF_SAMPLES", &programs}, {"README", &readmePath}};

Output run(const std::string& command) { return runProgram(programs + "/" + command); }

void expectRefused(const std::string& command, int exitCode, const std::string& named) {
  const Output output = run(command);
  EXPECT_EQ(output.exitCode, exitCode) << command << "\n" << output.text;
  EXPECT_EQ(output.count(named), 1) << command << "\n" << output.text;
}

/// All groups of all matches, as numbers.
std::vector<double> numbers(const Output& output, const std::string& pattern) {
  std::vector<double> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(output.text.begin(), output.text.end(), regex), end; at != end; ++at)
    for (size_t group = 1; group < at->size(); ++group) found.push_back(std::stod((*at)[group]));
  return found;
}

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

// FSDP cannot cut what --tp can; what was planned is what arenas then needed, or it fails.
TEST(FsdpTp, KeepsItsLimit) {
  for (const std::string tp : {"", " --tp 1", " --tp 2", " --tp 1 --dataset random"}) {
    const Output output = run("fsdp_tp --ranks 4 --steps 2" + tp);
    EXPECT_EQ(output.exitCode, 1) << output.text;
    EXPECT_EQ(output.count("fsdp_tp: rank 0 of fsdp="), 1) << output.text;
    EXPECT_EQ(
        output.count("which is more than --memory-limit, 16.8 MB: the least that fits is --tp 4\n"),
        1)
        << output.text;
    for (const std::string kind : {"weights", "gradients", "optimizer", "staging", "until backward",
                                   "until weights", "scratch"})
      EXPECT_EQ(output.count("\n  " + kind + "  "), 1) << kind << "\n" << output.text;
    EXPECT_TRUE(losses({0, output.text}).empty()) << output.text;
  }
  for (const std::string flags : {" --tp 4", " --tp 4 --sp --dataset random"}) {
    const Output host = run("fsdp_tp --ranks 4 --steps 2" + flags);
    EXPECT_EQ(losses(host).size(), 2U);
    EXPECT_EQ(host.count("as planned; a step takes "), 1) << host.text;
    const std::string held = use(run("fsdp_tp --ranks 4 --device dry" + flags));
    EXPECT_EQ(use(host).substr(0, held.size()), held);
    const size_t planned = host.text.find("planned: rank 0 ");
    ASSERT_NE(planned, std::string::npos) << host.text;
    const std::string memory =
        held.substr(held.find("holds "), held.find("sends") - held.find("holds "));
    EXPECT_EQ(host.text.substr(planned + 16, memory.size()), memory);
  }
}

TEST(FsdpTp, HasTheSameLossesUnderAllLayouts) {
  const std::string flags = "fsdp_tp --memory-limit 0 --steps 4 --context 64 --n-layers ";
  const auto one = losses(run(flags + "2"));
  ASSERT_EQ(one.size(), 4U);
  for (const std::string layout : {"", " --tp 2", " --tp 2 --sp", " --tp 4", " --tp 4 --sp"})
    expectClose(losses(run(flags + "2 --ranks 4" + layout)), one, 1e-5, layout);
  EXPECT_NE(losses(run(flags + "2 --dataset random")), one);
  EXPECT_NE(use(run(flags + "3 --device dry")), use(run(flags + "2 --device dry")));
}

TEST(FsdpTp, ComparesLayouts) {
  const std::string number = "([0-9.]+)";
  const std::string row =
      "\n([124])   *" + number + " MB  *" + number + " ms  " + number + "  *(?:no|yes)";
  const Output output = run("fsdp_tp --ranks 4 --compare --steps 3 --n-layers 2");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  const std::vector<double> table = numbers(output, row);
  ASSERT_EQ(table.size(), 12U) << output.text;
  for (const size_t tp : {0U, 1U, 2U}) {
    const double* at = table.data() + 4 * tp;
    EXPECT_EQ(at[0], 1 << tp);
    EXPECT_GT(at[2], 0);
    EXPECT_NEAR(at[3], table[3], 1e-5 * table[3]);
    EXPECT_LE(at[1], table[1]);
  }
  EXPECT_EQ(run("fsdp_tp --ranks 4 --compare --device dry").count("  no"), 2);
  // Of 8 ranks, --tp 1 would need 8 sequences, and --tp 8 as many heads.
  const Output some = run("fsdp_tp --ranks 8 --compare --device dry");
  EXPECT_EQ(numbers(some, "\n([0-9]+)  "), (std::vector<double>{2, 4})) << some.text;
  expectRefused("fsdp_tp --ranks 8 --tp 2 --memory-limit 12M", 1, "the least that fits is --tp 4");
  expectRefused("fsdp_tp --ranks 4 --compare --batch 2", 1, "on this batch with no --tp");
}

// The table of docs/reference/samples.md.
TEST(FsdpTp, HoldsWhatItsPageSays) {
  std::ifstream file(readmePath);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const auto& [flag, row] :
       std::map<std::string, std::string>{{"", "rank 0 holds"}, {" --sp", "with `--sp`"}}) {
    const Output output = run("fsdp_tp --ranks 4 --compare --device dry" + flag);
    const std::vector<double> held = numbers(output, "\n[124]   *([0-9.]+) MB");
    ASSERT_EQ(held.size(), 3U) << output.text;
    char cells[128];
    std::snprintf(cells, sizeof(cells), " | %.1f MB | %.1f MB | %.1f MB |\n", held[0], held[1],
                  held[2]);
    EXPECT_NE(page.find("\n| " + row + cells), std::string::npos) << row << cells;
  }
}

TEST(FsdpTp, NamesWhatItRefuses) {
  expectRefused("fsdp_tp --ranks 4 --tp 3", 1, "--tp 3 does not divide 4 ranks");
  expectRefused("fsdp_tp --ranks 8 --tp 8", 1, "cannot be dealt out to 8 ranks");
  expectRefused("fsdp_tp --ranks 4 --memory-limit 1M", 1, "with no --tp up to 4 it fits");
  expectRefused("fsdp_tp --ranks 1", 1, "with no --tp up to 1 it fits");
  for (const std::string limit : {"much", "-1", "1X"})
    expectRefused("fsdp_tp --memory-limit=" + limit, 2, limit);
  expectRefused("fsdp_tp --dataset book", 2, "--dataset");
}

// Each operator on a rank of its own: the losses of one rank, and half of the AllReduces of blocks
// that are cut, in 4 micro-batches of 2 blocks: 1 for the embeddings and 1 for the head's gradient
// in each, and 1 for gradients in a step.
TEST(TensorSamples, OperatorsAreOnDifferentRanks) {
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
