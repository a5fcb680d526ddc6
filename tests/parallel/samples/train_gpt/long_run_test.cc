// A training that lasts: told to end it saves and goes on later, and the launcher starts it again
// when a rank dies. Whatever happened meanwhile, the weights at the end are those of a training
// that nothing disturbed, to the bit. The paths of train_gpt and of tutti are the arguments of this
// test.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <random>

#include "parallel/checkpoint/names.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/leftovers.h"
#include "tests/support/run_tutti.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
using launcher::Command;
using launcher::eventually;
using launcher::Result;
using std::chrono::seconds;

std::string program;
const tests::Arguments commandLine{{"TRAIN_GPT", &program}, {"TUTTI", &launcher::tuttiPath}};

/// The processes of the job that `launcher` has started, by rank, as far as they are there.
std::map<int, pid_t> ranksOf(pid_t launcher) {
  std::map<int, pid_t> ranks;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string folder = entry.path();
    int parent = 0;
    std::ifstream stat(folder + "/stat");
    std::string text;
    if (!std::getline(stat, text) || text.rfind(')') == std::string::npos ||
        std::sscanf(text.c_str() + text.rfind(')') + 1, " %*c %d", &parent) != 1 ||
        parent != launcher)
      continue;
    std::ifstream environment(folder + "/environ", std::ios::binary);
    for (std::string variable; std::getline(environment, variable, '\0');)
      if (variable.starts_with("TUTTI_RANK="))
        ranks[std::stoi(variable.substr(11))] = std::stoi(entry.path().filename());
  }
  return ranks;
}

class LongRun : public testing::Test {
 protected:
  static constexpr int kRanks = 4;

  void SetUp() override {
    std::ofstream text(file("text"));
    for (int i = 0; i < 700; ++i) text << "line " << i * i % 97 << " of the text, ";
  }
  std::string file(const std::string& name) const { return folder_.path() / name; }

  std::vector<std::string> training(int steps, const std::vector<std::string>& more) const {
    std::vector<std::string> words{program, "--text", file("text")};
    for (const char* word : {"--layers", "1", "--width", "16", "--heads", "2", "--context", "16",
                             "--batch", "8", "--generate", "0", "--deterministic"})
      words.emplace_back(word);
    words.insert(words.end(), {"--steps", std::to_string(steps)});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// Under `tutti run`.
  std::vector<std::string> job(int restarts, const std::vector<std::string>& command) const {
    std::vector<std::string> words{
        launcher::tuttiPath,      "run", "-n", std::to_string(kRanks), "--restarts",
        std::to_string(restarts), "--"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  /// With checkpoints and JSON lines of these names, to go on from where the first end.
  std::vector<std::string> resuming(const std::string& name) const {
    return {"--checkpoints", file(name), "--resume", "--json", file(name + ".json")};
  }
  /// What nothing has disturbed, on one rank, leaves.
  std::map<std::string, std::vector<char>> undisturbed(int steps) const {
    const Result result =
        Command(training(steps, {"--checkpoints", file("whole"), "--json", file("whole.json")}))
            .wait();
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return savedTensors(file("whole"));
  }
  /// Of the lines of a file that are whole.
  std::vector<int> steps(const std::string& name) const {
    std::vector<int> found;
    std::ifstream json(file(name + ".json"));
    int step = 0;
    for (std::string line; std::getline(json, line) && !json.eof();)
      if (std::sscanf(line.c_str(), "{\"step\":%d", &step) == 1) found.push_back(step);
    return found;
  }
  /// The losses, as they are written.
  std::vector<std::string> losses(const std::string& name) const {
    std::vector<std::string> found;
    std::ifstream json(file(name + ".json"));
    for (std::string line; std::getline(json, line);) {
      const size_t at = line.find("\"loss\":");
      found.push_back(line.substr(at, line.find(',', at) - at));
    }
    return found;
  }
  /// Waits until an attempt has come to `step`; false when it ended before.
  bool waitForStep(const std::string& name, int step) const {
    return eventually(
        [&] {
          const auto done = steps(name);
          return !done.empty() && done.back() >= step;
        },
        seconds(120));
  }
  void expectSame(const std::string& name, int steps,
                  const std::map<std::string, std::vector<char>>& whole) {
    EXPECT_EQ(savedTensors(file(name)), whole) << name;
    std::vector<int> all(static_cast<size_t>(steps));
    for (int i = 0; i < steps; ++i) all[static_cast<size_t>(i)] = i + 1;
    EXPECT_EQ(this->steps(name), all) << name;
    EXPECT_EQ(losses(name), losses("whole")) << name;
  }

  tests::TemporaryFolder folder_;
};

struct Request {
  int signal;
  std::optional<int> rank;  ///< none: to the launcher
  std::string name;
};

TEST_F(LongRun, ToldToEndItSavesAndGoesOnToTheSameBits) {
  constexpr int kSteps = 1500;
  const auto whole = undisturbed(kSteps);
  for (const Request& request :
       {Request{SIGTERM, std::nullopt, "TERM"}, Request{SIGINT, std::nullopt, "INT"},
        Request{SIGTERM, 0, "TERM"}, Request{SIGTERM, 2, "TERM"}, Request{SIGUSR1, 3, "USR1"}}) {
    const std::string name =
        "run-" + request.name + (request.rank ? std::to_string(*request.rank) : "");
    Command running(job(0, training(kSteps, resuming(name))));
    ASSERT_TRUE(waitForStep(name, 3));
    const std::map<int, pid_t> ranks = ranksOf(running.pid());
    ASSERT_EQ(ranks.size(), static_cast<size_t>(kRanks));
    if (request.rank)
      ASSERT_EQ(kill(ranks.at(*request.rank), request.signal), 0);
    else
      running.signal(request.signal);
    const Result result = running.wait();
    ASSERT_EQ(result.exitCode, 0) << result.err << result.out;
    const std::vector<int64_t> saved = checkpointSteps(file(name));
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_LT(saved[0], kSteps) << "it came too late to see anything";
    EXPECT_TRUE(launcher::contains(
        result.out, message("ended by SIG", request.name, " after step ", saved[0], "; ")))
        << result.out;
    EXPECT_EQ(steps(name).back(), saved[0]);
    const Result rest = Command(job(0, training(kSteps, resuming(name)))).wait();
    ASSERT_EQ(rest.exitCode, 0) << rest.err;
    expectSame(name, kSteps, whole);
  }
}

/// While it evaluates what it has learned, which here takes minutes.
TEST_F(LongRun, ToldToEndAfterTheLastStepItEnds) {
  std::ofstream text(file("text"));
  for (int i = 0; i < 2'000'000; ++i) text << "line " << i % 97 << " of the text, ";
  text.close();
  Command running(job(0, training(3, resuming("run"))));
  ASSERT_TRUE(waitForStep("run", 3));
  ASSERT_TRUE(eventually([&] { return !checkpointSteps(file("run")).empty(); }, seconds(60)));
  running.signal(SIGTERM);
  const Result result = running.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err << result.out;
  EXPECT_TRUE(launcher::contains(result.out, "ended by SIGTERM after step 3; ")) << result.out;
  EXPECT_FALSE(launcher::contains(result.out, "validation loss")) << result.out;
}

TEST_F(LongRun, ToldToEndWithoutCheckpointsItSaysThatNothingWasSaved) {
  // It starts its ranks itself.
  Command running(training(1'000'000, {"--ranks", "2", "--json", file("run.json")}));
  ASSERT_TRUE(waitForStep("run", 3));
  running.signal(SIGTERM);
  const Result result = running.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(launcher::contains(result.out, "nothing was saved: there is no --checkpoints"))
      << result.out;
}

/// What a launcher may send together with what stops its whole group.
TEST_F(LongRun, ASecondSignalEndsNothing) {
  Command running(training(1'000'000, {"--checkpoints", file("run"), "--json", file("run.json"),
                                       "--trace", file("trace")}));
  ASSERT_TRUE(waitForStep("run", 3));
  for (const int signal : {SIGTERM, SIGTERM, SIGUSR1}) running.signal(signal);
  const Result result = running.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(checkpointSteps(file("run")).size(), 1u);
  const std::string trace = tests::contentsOf(file("trace"));
  EXPECT_TRUE(launcher::contains(trace, "\"forward\"")) << "the trace is lost";
  EXPECT_TRUE(trace.ends_with("]}\n"));
}

/// As a disk that fills up, or a copy that breaks off, leaves it.
TEST_F(LongRun, GoesOnFromTheNewestCheckpointThatIsSound) {
  constexpr int kSteps = 40;
  const auto whole = undisturbed(kSteps);
  std::vector<std::string> words = resuming("run");
  words.insert(words.end(), {"--save-every", "10", "--keep", "9"});
  ASSERT_EQ(Command(job(0, training(kSteps, words))).wait().exitCode, 0);
  const fs::path newest = checkpointPath(file("run"), 40), before = checkpointPath(file("run"), 30);
  fs::resize_file(newest / shardName(0), 100);
  fs::remove(before / kManifestName);
  const Result result = Command(job(2, training(kSteps, words))).wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  for (const fs::path& damaged : {newest, before}) {
    const std::string said = "train_gpt: warning: " + damaged.string() + " is damaged, and is " +
                             damaged.string() + ".damaged now; the training goes on from " +
                             checkpointPath(file("run"), 20).string();
    EXPECT_TRUE(launcher::contains(result.err, said)) << result.err << "\nnot: " << said;
    EXPECT_TRUE(fs::exists(damaged.string() + ".damaged"));
  }
  EXPECT_FALSE(launcher::contains(result.err, "failed")) << result.err;
  EXPECT_EQ(checkpointSteps(file("run")), (std::vector<int64_t>{10, 20, 30, 40}));
  for (const int64_t step : {10, 20, 30}) fs::remove_all(checkpointPath(file("run"), step));
  expectSame("run", kSteps, whole);
}

class Killed : public LongRun, public testing::WithParamInterface<bool> {};

TEST_P(Killed, AtRandomItEndsWithTheSameBits) {
  constexpr int kSteps = 500, kKills = 3;
  std::mt19937_64 random(tests::testSeed());
  std::vector<std::string> words = resuming("run");
  words.insert(words.end(), {"--save-every", "10"});
  if (GetParam()) words.emplace_back("--async-checkpoints");
  Command running(job(kKills, training(kSteps, words)));
  int from = 0;
  for (int i = 0; i < kKills; ++i) {
    const int at = i * 110 + static_cast<int>(random() % 100) + 1;
    // The attempt before may have ended one more step than it was seen to.
    ASSERT_TRUE(waitForStep("run", std::max(at, from + 3)));
    const std::map<int, pid_t> ranks = ranksOf(running.pid());
    const auto victim = ranks.find(static_cast<int>(random() % kRanks));
    ASSERT_NE(victim, ranks.end());
    ASSERT_EQ(kill(victim->second, SIGKILL), 0);
    ASSERT_TRUE(eventually([&] { return !launcher::alive(victim->second); }, seconds(60)));
    from = steps("run").back();
  }
  const Result result = running.wait();
  ASSERT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(launcher::contains(result.err, "attempt 3 of 4 failed: the job starts again"))
      << result.err;
  expectSame("run", kSteps, undisturbed(kSteps));
}
INSTANTIATE_TEST_SUITE_P(Ranks, Killed, testing::Bool());

}  // namespace
}  // namespace tutti::parallel
