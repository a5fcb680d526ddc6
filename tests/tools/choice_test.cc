// How good the choices are, by what a machine was measured to take: `tutti tune -n 3`, `-n 5` and
// `-n 8`, each with `--turns 9 --record`, two to four times on a virtual machine of 2 cores, and
// `tutti tune --from ... --record` of all that. Buffers are in windows; those of ordinary memory
// would be judged without what asking for mapped ones costs.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "src/tools/tune_record.h"
#include "tests/support/outcome.h"

namespace tutti::tools {
namespace {

using collectives::MeasuredCall;

std::string recordPath;  // set by main()

std::vector<MeasuredCall> recorded() {
  std::ifstream file(recordPath);
  std::vector<MeasuredCall> calls;
  for (Verdict& verdict : readRecord(file, recordPath)) calls.push_back(std::move(verdict.call));
  return calls;
}

TEST(RecordedCalls, AreOfManyKinds) {
  std::map<int, int> seen;  // by ranks
  for (const MeasuredCall& call : recorded()) {
    ++seen[call.topology.ranks];
    EXPECT_TRUE(call.request.mappable);
    EXPECT_EQ(call.topology.hosts(), 1);
  }
  constexpr int kCollectives = 9, kSizes = 8, kAll = kCollectives * kSizes;
  EXPECT_EQ(seen, (std::map<int, int>{{2, kAll}, {3, kAll}, {4, kAll}, {5, kAll}, {8, kAll}}));
}

// Where several ranks share a core, which of them the kernel runs next counts as much as the plan,
// and a few calls are chosen badly.
TEST(RecordedCalls, AreChosenWellForByDefault) {
  const auto calls = recorded();
  size_t badly = 0;
  for (const MeasuredCall& call : calls) {
    const double factor = collectives::regret(call, {});
    badly += factor > 1.3;
    EXPECT_LE(factor, call.topology.oversubscribed() ? 2.3 : 1.62)
        << call.request.describe() << " on " << call.topology.ranks << " ranks";
  }
  EXPECT_LE(badly, calls.size() * 3 / 100);
  EXPECT_LE(collectives::regrets(calls, {}).mean, 1.03);
}

// What no constants choose well for is preferred by name. These are the calls that it was fitted
// to: how well it chooses for others, docs/tools.md says.
TEST(RecordedCalls, AreChosenWellForOnceTuned) {
  const auto calls = recorded();
  const topology::Tuning tuned = collectives::fit(calls, {});
  for (const MeasuredCall& call : calls)
    EXPECT_LE(collectives::regret(call, tuned), 1.3)
        << call.request.describe() << " on " << call.topology.describe();
  EXPECT_LE(tuned.preferences.size(), calls.size() / 10);
}

TEST(RecordedCalls, TellWorseConstants) {
  const auto calls = recorded();
  topology::Tuning eager;  // messages cost nothing
  eager.messageMicroseconds = eager.yieldMicroseconds = 0;
  EXPECT_GT(collectives::regrets(calls, eager).mean, 1.05);
  topology::Tuning shy;  // nobody is asked for mapped buffers
  shy.entryMicroseconds = 1e5;
  EXPECT_GT(collectives::regrets(calls, shy).worst, 2);
}

TEST(Record, ComesBackAsItWas) {
  std::ifstream file(recordPath);
  std::string first;
  std::getline(file, first);
  std::istringstream lines(first);
  const auto verdicts = readRecord(lines, "there");
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(jsonOf(verdicts[0]), first + "\n");
}

TEST(Record, SaysWhatItRefusesAndWhere) {
  std::ifstream file(recordPath);
  std::string good;
  std::getline(file, good);
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const auto at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    line.replace(at, from.size(), to);
    std::istringstream lines(good + "\n" + line + "\n");
    const auto outcome = tests::outcomeOf([&] { readRecord(lines, "a.jsonl"); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << line;
    EXPECT_TRUE(outcome.text.starts_with("a.jsonl, line 2: ")) << outcome.text;
    return outcome.text;
  };
  EXPECT_NE(refusal("\"block_bytes\":8", "\"block_bytes\":0").find("block_bytes is 0"),
            std::string::npos);
  EXPECT_NE(refusal("\"block_bytes\":8", "\"block_bytes\":\"8\"").find("block_bytes is no number"),
            std::string::npos);
  EXPECT_NE(refusal("\"ranks\":2", "\"ranks\":3").find("one for each rank"), std::string::npos);
  EXPECT_NE(refusal("all_reduce", "all_produce").find("no such collective"), std::string::npos);
  EXPECT_NE(refusal("[0,0]", "[0,7]").find("numbered from 0"), std::string::npos);
  refusal("\"windows\":true", "\"windows\":1");
  refusal("{\"block_bytes\"", "[");
  refusal("\"ring\":", "\"ring\":-");
  refusal(good, "[]");
  refusal(good, "");
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    fprintf(stderr, "usage: %s RECORD\n", argv[0]);
    return 2;
  }
  tutti::tools::recordPath = argv[1];
  return RUN_ALL_TESTS();
}
