// How good the choices are, by what a virtual machine of 2 cores was measured to take, in windows and
// on ordinary memory. fitted.jsonl: `tutti tune -n 3`, `-n 5` and `-n 8` with `--record`, several
// times, and `tutti tune --from ... --record` of all that. others.jsonl: the same at another time,
// with `--blocks` of sizes that lie between.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "src/tools/tune_record.h"
#include "tests/support/outcome.h"

namespace tutti::tools {
namespace {

using collectives::MeasuredCall;

std::string recordPath, othersPath;  // set by main()

std::vector<MeasuredCall> recorded(const std::string& path) {
  std::ifstream file(path);
  std::vector<MeasuredCall> calls;
  for (Verdict& verdict : readRecord(file, path)) calls.push_back(std::move(verdict.call));
  return calls;
}

const topology::Tuning& tuned() {
  static const topology::Tuning tuning = collectives::fit(recorded(recordPath), {});
  return tuning;
}

using Kind = std::tuple<int, int, bool, plan::Collective>;  // ranks, hosts, windows

/// The sizes that were recorded, by what else the call was.
std::map<Kind, std::set<uint64_t>> sizesIn(const std::string& path) {
  std::map<Kind, std::set<uint64_t>> sizes;
  for (const MeasuredCall& call : recorded(path))
    sizes[{call.topology.ranks, call.topology.hosts(), call.windows, call.request.collective}]
        .insert(call.request.blockBytes());
  return sizes;
}

// Of one host in windows and not, of two hosts with one rank and with two.
TEST(RecordedCalls, AreOfManyKinds) {
  const auto fitted = sizesIn(recordPath), others = sizesIn(othersPath);
  constexpr size_t kCollectives = 9, kPlaces = 5 * 2 + 2;
  EXPECT_EQ(fitted.size(), kCollectives * kPlaces);
  ASSERT_EQ(others.size(), fitted.size());
  for (const auto& [kind, sizes] : fitted) {
    ASSERT_TRUE(others.contains(kind));
    EXPECT_GE(sizes.size(), 11U);
    EXPECT_GE(others.at(kind).size(), 7U);
    for (const uint64_t size : others.at(kind)) EXPECT_FALSE(sizes.contains(size)) << size;
  }
}

struct Judged {
  size_t calls = 0, badly = 0;
  collectives::Regrets all;
};

Judged judged(const std::vector<MeasuredCall>& calls, const topology::Tuning& tuning) {
  Judged result{.calls = calls.size(), .all = collectives::regrets(calls, tuning)};
  for (const MeasuredCall& call : calls) result.badly += collectives::regret(call, tuning) > 1.3;
  return result;
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
