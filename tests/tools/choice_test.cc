// How good the choices are that the default constants make, by what a machine was measured to take:
// `tutti tune -n 2 --turns 9 --record` and `-n 4` on a quiet virtual machine of 2 cores.

#include <gtest/gtest.h>

#include <fstream>
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

TEST(RecordedCalls, AreChosenWellForByDefault) {
  const auto calls = recorded();
  ASSERT_EQ(calls.size(), 144U);
  for (const MeasuredCall& call : calls) {
    // With several ranks a core, which of them the kernel runs next counts as much as the plan.
    const double most = call.topology.oversubscribed() ? 1.42 : 1.3;
    EXPECT_LE(collectives::regret(call, {}), most)
        << call.request.describe() << " on " << call.topology.ranks << " ranks";
  }
  EXPECT_LE(collectives::regrets(calls, {}).mean, 1.03);
}

// What no constants choose well for is preferred by name.
TEST(RecordedCalls, AreChosenWellForOnceTuned) {
  const auto calls = recorded();
  const topology::Tuning tuned = collectives::fit(calls, {});
  EXPECT_LE(collectives::regrets(calls, tuned).worst, 1.3);
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
