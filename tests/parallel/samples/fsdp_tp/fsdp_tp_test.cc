// The transformer of FSDP and tensor parallelism as its user meets it: a limit on memory that is
// kept, and the same losses under all layouts. The folder of the programs is the first argument of
// this test, docs/reference/samples.md the second.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/parallel/samples/sample_programs.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string readmePath;
const tests::Arguments commandLine{{"FOLDER_OF_SAMPLES", &programs}, {"README", &readmePath}};

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
    for (const std::string kind :
         {"weights", "gradients", "optimizer", "staging", "saved activations", "scratch"})
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
      "\n([124])   *" + number + " MB  *" + number + " ms  *" + number + "  *(?:no|yes)";
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

}  // namespace
}  // namespace tutti::parallel
