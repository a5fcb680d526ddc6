// The program `peers` with a stand-in for Open MPI: a launcher beside which there is a worker that
// does nothing, or Tutti's own.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/collectives/peers/row.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::bench {
namespace {

using tests::Output;
using tests::runProgram;
namespace fs = std::filesystem;

fs::path program, standIn;
const tests::Arguments commandLine{{"PEERS", &program}, {"STAND_IN_PEER", &standIn}};

class PeersCommand : public testing::Test {
 protected:
  /// A few calls, where `flags` have nothing else. They end long before the time is over, also
  /// beside other programs.
  Output run(const std::string& flags) const {
    std::string command = program.string() + " --peers " + folder_.path().string() + " " + flags;
    for (const auto& [flag, value] : {std::pair("--ranks", "2"), std::pair("--blocks", "6"),
                                      std::pair("--calls", "3"), std::pair("--minutes", "10")})
      if (flags.find(flag) == flags.npos) command += std::string(" ") + flag + " " + value;
    return runProgram(command);
  }
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }
  nlohmann::json results() const { return nlohmann::json::parse(folder_.read("a.json")); }

  /// Open MPI's launcher, which starts ranks of `worker` by `tutti run`.
  void installPeer(const fs::path& worker) const {
    const fs::path bin = folder_.path() / "openmpi/bin";
    fs::create_directories(bin);
    const auto install = [&](const char* name, const std::string& script) {
      tests::setContents(bin / name, "#!/bin/sh\n" + script);
      fs::permissions(bin / name, fs::perms::owner_all);
    };
    install("mpi_worker", "exit 3\n");
    install("mpirun", "for folder; do :; done\nexec " + (program.parent_path() / "tutti").string() +
                          " run --no-prefix -n \"$2\" -- " + worker.string() + " \"$folder\"\n");
  }

  tests::TemporaryFolder folder_;
};

TEST_F(PeersCommand, MeasuresAllCollectivesAndChecksThem) {
  const Output output = run("--only none --min 8 --max 4K --factor 512 --json " + file("a.json") +
                            " --svg " + file("a.svg"));
  EXPECT_EQ(output.exitCode, 0) << output.text;
  const auto rows = results()["rows"];
  ASSERT_EQ(rows.size(), 15u) << output.text;  // two sizes, but of the barrier
  for (const auto& row : rows) {
    EXPECT_EQ(row["contenders"].size(), row["collective"] == "barrier" ? 1u : 2u) << row;
    for (const auto& contender : row["contenders"]) {
      EXPECT_EQ(contender["blocks_us"].size(), 6u) << row;
      EXPECT_GT(contender["median_us"], 0) << row;
      EXPECT_GT(contender["predicted_us"], 0) << row;
    }
    EXPECT_EQ(row["limit_us"].is_null(), row["collective"] == "barrier") << row;
  }
  EXPECT_EQ(output.count("\n### "), 8) << output.text;
  EXPECT_EQ(output.lastLine(), "Nothing is slower than a peer.");
  EXPECT_NE(folder_.read("a.svg").find("viewBox"), std::string::npos);
}

TEST_F(PeersCommand, GivesEachBlockAnElement) {
  const Output output =
      run("--ranks 4 --only none --collectives all_gather,reduce --memory ordinary"
          " --min 8 --max 8 --json " +
          file("a.json"));
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(results()["rows"][0]["bytes"], 16);
  EXPECT_EQ(results()["rows"][1]["bytes"], 8);
}

TEST_F(PeersCommand, ComparesWithAPeer) {
  installPeer(program.parent_path() / "tutti_worker");
  const Output output =
      run("--only openmpi --collectives all_reduce --min 64 --max 64 --json " + file("a.json"));
  EXPECT_EQ(output.exitCode, 0) << output.text;
  const auto peer = results()["rows"][0]["contenders"][2];
  EXPECT_EQ(peer["contender"], "openmpi") << output.text;
  EXPECT_GT(peer["ratio"]["allocate"]["median"], 0);
  EXPECT_GT(peer["ratio"]["ordinary"]["median"], 0);
  EXPECT_EQ(results()["versions"]["openmpi"], results()["versions"]["tutti"]);
}

TEST_F(PeersCommand, FindsAWrongResultAndAFasterPeer) {
  installPeer(standIn);
  const Output output =
      run("--only openmpi --collectives all_reduce,barrier --min 64 --max 64 --calls 200");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(output.count("- openmpi: Stand-in 1.2\n"), 1) << output.text;
  EXPECT_EQ(
      output.count("\n- all_reduce, 2 ranks, 64 bytes, openmpi: openmpi gave a wrong result\n"), 1)
      << output.text;
  EXPECT_EQ(output.count("Slower than a peer:\n- barrier, 2 ranks, allocate: "), 1) << output.text;
}

/// A block of one call is alike the one before, whose result is still there.
TEST_F(PeersCommand, FindsAResultOfAnEarlierBlock) {
  installPeer(standIn);
  const Output output = run("--only openmpi --collectives send_recv --min 64 --max 64 --calls 1");
  EXPECT_EQ(
      output.count("\n- send_recv, 2 ranks, 64 bytes, openmpi: openmpi gave a wrong result\n"), 1)
      << output.text;
}

/// Whether a process has `words` in its command line.
bool runs(const std::string& words) {
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (line.find(words) != line.npos) return true;
  }
  return false;
}

TEST_F(PeersCommand, EndsAPeerThatDoesNotAnswerAndNamesIt) {
  fs::create_symlink(standIn, file("hanging_peer"));
  installPeer(file("hanging_peer"));
  const Output output =
      run("--only openmpi --collectives reduce,barrier --min 8 --max 16 --factor 2 --minutes 0.6"
          " --calls 200");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  for (const char* line : {"\n- reduce, 2 ranks, 8 bytes, openmpi: too slow for the time of the "
                           "row: openmpi does not answer\n",
                           "\n- reduce, 2 ranks, 16 bytes, openmpi: too slow for the time of the "
                           "row: it was so with 8 bytes\n",
                           "Slower than a peer:\n- barrier, 2 ranks, allocate: "})
    EXPECT_EQ(output.count(line), 1) << output.text;
  EXPECT_FALSE(runs(file("hanging_peer")));
}

TEST_F(PeersCommand, RemovesWhatAKilledOneHasLeft) {
  const fs::path memory = "/dev/shm";
  const fs::path root = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  const fs::path left = root / ("bench-peers-left-" + std::to_string(::getpid()));
  fs::create_directories(left / "gloo");
  EXPECT_EQ(run("--only none --collectives barrier").exitCode, 0);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(PeersCommand, FailsWithAWrongResultOfTutti) {
  fs::create_symlink(program.parent_path() / "tutti", folder_.path() / "tutti");
  fs::create_symlink(standIn, folder_.path() / "tutti_worker");
  const Output output = run("--only none --collectives broadcast,barrier --min 64 --max 64 --bin " +
                            folder_.path().string());
  EXPECT_EQ(output.exitCode, 1) << output.text;
  EXPECT_EQ(output.count("\n- broadcast, 2 ranks, 64 bytes, allocate: tutti gave a wrong result\n"),
            1)
      << output.text;
}

TEST_F(PeersCommand, NamesOnceWhoDoesNotStart) {
  installPeer("/bin/false");
  const Output output = run("--only openmpi,mpich --collectives reduce --min 8 --max 512");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(output.count("peers: openmpi is not measured: a process of openmpi has ended"), 1)
      << output.text;
  EXPECT_EQ(output.count("peers: mpich is not measured: there is no "), 1) << output.text;
  EXPECT_EQ(output.count("mpich/bin/mpi_worker (make bench-peers)\n"), 2) << output.text;
}

TEST_F(PeersCommand, GoesOnWithWhatItsFileHas) {
  const std::string flags = "--only none --collectives reduce --json " + file("a.json");
  ASSERT_EQ(run(flags + " --min 8 --max 8").exitCode, 0);
  nlohmann::json before = results();
  before["rows"][0]["flag_ns"] = 12345;  // nothing that a measurement would give
  tests::setContents(file("a.json"), before.dump());
  const Output more = run(flags + " --min 8 --max 64");
  EXPECT_EQ(more.exitCode, 0) << more.text;
  ASSERT_EQ(results()["rows"].size(), 2u);
  EXPECT_EQ(results()["rows"][0]["flag_ns"], 12345);
  EXPECT_EQ(results()["rows"][1]["bytes"], 64);
  EXPECT_EQ(more.count("[1/2]"), 0) << more.text;
  EXPECT_EQ(more.count("[2/2]"), 1) << more.text;

  const std::string rest = "--collectives reduce --min 8 --max 64 --json " + file("a.json");
  for (const char* changed :
       {"--only none --blocks 7 ", "--only none --commit 123 ", "--only gloo "}) {
    const Output other = run(changed + rest);
    EXPECT_EQ(other.exitCode, 2) << other.text;
    EXPECT_EQ(other.count(" has rows of another build, machine, or --blocks"), 1) << other.text;
  }
  EXPECT_EQ(results()["rows"].size(), 2u);
}

TEST_F(PeersCommand, LeavesOutWhatHasNoTime) {
  const Output output =
      run("--minutes 0.003 --only none --min 8 --max 1M --collectives all_reduce "
          "--factor 2");
  EXPECT_GE(output.count(" is left out: its time is over\n"), 1) << output.text;
  EXPECT_EQ(output.count("The same command with --json goes on with them.\n"), 1) << output.text;
}

TEST_F(PeersCommand, RefusesWrongFlags) {
  for (const auto& [flags, why] : std::vector<std::pair<std::string, std::string>>{
           {"--ranks 1", "--ranks 1 is not a whole number from 2"},
           {"--collectives all_reduce,scan", "scan"},
           {"--only nccl", "nccl"},
           {"--memory huge", "huge"},
           {"--min 2", "an element of float32 has 4 bytes"},
           {"--min 64 --max 8", "--max 8 is less than --min 64"},
           {"--max 8G", "--max 8G is more than 4G"},
           {"--factor 1", "--factor"},
           {"--blocks 5", "--blocks"},
           {"--quik", "did you mean --quick"}}) {
    const Output output = run(flags);
    EXPECT_EQ(output.exitCode, 2) << flags << output.text;
    EXPECT_EQ(output.text.rfind("peers: ", 0), 0u) << output.text;
    EXPECT_NE(output.text.find(why), std::string::npos) << output.text;
  }
}

}  // namespace
}  // namespace tutti::bench
