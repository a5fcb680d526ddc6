// The sample of context parallelism as its user meets it: in both ways it is one rank's to
// rounding, and takes and sends what formulas say. The folder of the programs is the first argument
// of this test, docs/reference/samples.md the second, docs/images/ring-attention.svg the third.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/parallel/samples/sample_output.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string programs, readmePath, imagePath;
const tests::Arguments commandLine{
    {"FOLDER_OF_PROGRAMS", &programs}, {"README", &readmePath}, {"IMAGE", &imagePath}};

Output run(const std::string& flags) { return runProgram(programs + "/ring_attention " + flags); }

void expectRefused(const std::string& flags, int exitCode, const std::string& named) {
  expectRefusal(programs + "/ring_attention " + flags, exitCode, named);
}

// It fails by itself where what it counts or computes is not what it should be.
TEST(RingAttention, IsOneRanksInBothWays) {
  for (const std::string flags : {"--ranks 2", "--ranks 4 --length 512 --kv-heads 2",
                                  "--ranks 3 --length 66 --heads 6 "
                                  "--kv-heads 3 --width 60",
                                  "--ranks 4 --length 8 --kv-heads 1"}) {
    const Output output = run(flags);
    EXPECT_EQ(output.exitCode, 0) << flags << "\n" << output.text;
    const std::vector<double> worst = numbers(output, "worst difference from one rank +(\\S+)");
    EXPECT_EQ(worst.size(), 2U) << output.text;
    for (const double difference : worst) EXPECT_LE(difference, 1e-12) << flags;
    EXPECT_EQ(output.count("predicted"), 3 * 4) << output.text;
  }
  EXPECT_EQ(run("--ranks 2 --length 64 --attention ring").count("heads, 2 ranks"), 0);
  EXPECT_EQ(run("--ranks 1 --length 64").count("predicted"), 4);
}

// A million positions, over 64 ranks.
TEST(RingAttention, SaysWhatALongSequenceTakes) {
  const Output output =
      run("--device dry --ranks 64 --length 1048576 --width 8192 --heads 64 --kv-heads 64");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(output.count("16384 positions each"), 2) << output.text;
  // Keys and values of 16384 positions, 2 * 8192 wide, 63 times; of the exchanges' 4 * 8192 columns
  // all but a 64th.
  EXPECT_EQ(output.count("sent in forward    135.29 GB"), 1) << output.text;
  EXPECT_EQ(output.count("sent in forward    4.23 GB"), 1) << output.text;
  EXPECT_EQ(output.count("worst difference"), 0) << output.text;
}

// Of one rank, of the ring, of exchanged heads.
TEST(RingAttention, ReadmeSaysWhatItPrints) {
  std::ifstream file(readmePath);
  const std::string readme(std::istreambuf_iterator<char>(file), {});
  const Output output =
      run("--ranks 64 --device dry --length 1048576 --width 8192 --heads 64 --kv-heads 8");
  for (const std::string what :
       {"saved activations", "peak activations", "sent in forward", "sent in backward"}) {
    std::string row = "| " + what + " |";
    const std::regex printed(what + " +([^,]+), predicted");
    for (std::sregex_iterator at(output.text.begin(), output.text.end(), printed), end; at != end;
         ++at)
      row += " " + (*at)[1].str() + " |";
    EXPECT_NE(readme.find(row + "\n"), std::string::npos) << row;
  }
}

std::string textOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The picture of docs/explanation/training-axes.md, with ranks and without data.
TEST(RingAttention, DrawsThePictureOfThePage) {
  const tests::TemporaryFolder folder;
  const std::string drawn = folder.path() / "ring.svg";
  for (const std::string more : {"", " --device dry"}) {
    const Output output = run("--ranks 4 --svg " + drawn + more);
    EXPECT_EQ(output.exitCode, 0) << output.text;
    EXPECT_EQ(textOf(drawn), textOf(imagePath)) << more;
    std::filesystem::remove(drawn);
  }
  expectRefused("--ranks 2 --attention heads --svg " + drawn, 1, "--svg draws the ring");
  expectRefused("--ranks 17 --length 34 --attention ring --device dry --svg " + drawn, 1,
                "--svg: at most 16 ranks");
  expectRefused("--ranks 2 --svg /nowhere/ring.svg", 1, "--svg: ");
}

TEST(RingAttention, RefusesWhatItCannotShareOut) {
  expectRefused("--ranks 3 --length 100", 1,
                "--length 100 is no multiple of twice 3 ranks: the next is --length 102");
  expectRefused("--ranks 3 --length 66", 1, "cannot be exchanged among 3 ranks");
  EXPECT_EQ(run("--ranks 3 --length 66 --attention ring").exitCode, 0);
  expectRefused("--width 65 --length 64", 1, "--width 65");
  expectRefused("--kv-heads 3 --length 64", 1, "--kv-heads 3");
  expectRefused("--length 0", 2, "--length");
  expectRefused("--attention all", 2, "--attention");
}

}  // namespace
}  // namespace tutti::parallel
