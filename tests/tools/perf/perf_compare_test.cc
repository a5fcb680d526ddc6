// `tutti perf --compare`: what it reads, refuses and says.

#include "src/tools/perf/perf_compare.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include <tutti/error.h>

#include "src/tools/perf/perf_plot.h"
#include "src/tools/perf/perf_report.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace tutti::tools {
namespace {

using tests::contains;

PerfOptions options() { return {.collectiveName = "all_reduce"}; }

PerfRow row(uint64_t bytes, std::vector<double> outUs, std::vector<double> inUs) {
  PerfRow row{.bytes = bytes, .count = bytes / 4};
  row.outOfPlace.repetitionsUs = std::move(outUs);
  row.inPlace.emplace().repetitionsUs = std::move(inUs);
  return row;
}

std::string line(const PerfRow& one, int ranks = 4) {
  return perfJson(options(), {.ranks = ranks}, one);
}

ComparedTimes read(const std::string& text) {
  std::istringstream lines(text);
  return readPerf(lines, "f");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(PerfCompare, DividesMediansAndTheirIntervals) {
  const PerfComparison c =
      compared(read(line(row(8, {10, 20, 40}, {5})) + line(row(16, {1}, {1, 1}))),
               read(line(row(8, {4, 5, 8}, {10})) + line(row(16, {2}, {0.5, 0.25}))));
  ASSERT_EQ(c.rows.size(), 4u);
  EXPECT_TRUE(c.onlyA.empty() && c.onlyB.empty());
  const ComparedRow& first = c.rows[0];
  EXPECT_EQ(first.call.bytes, 8u);
  EXPECT_FALSE(first.call.inPlace);
  EXPECT_DOUBLE_EQ(first.aUs, 20);
  EXPECT_DOUBLE_EQ(first.bUs, 5);
  EXPECT_DOUBLE_EQ(first.ratio, 0.25);
  ASSERT_TRUE(first.spread);
  EXPECT_DOUBLE_EQ(first.spread->least, 4.0 / 40);
  EXPECT_DOUBLE_EQ(first.spread->most, 8.0 / 10);
  EXPECT_FALSE(c.rows[1].spread);
  EXPECT_DOUBLE_EQ(c.rows[1].ratio, 2);
  EXPECT_TRUE(c.rows[2].call.inPlace);
  EXPECT_DOUBLE_EQ(c.rows[2].ratio, 2);
  EXPECT_DOUBLE_EQ(c.rows[3].spread->most, 0.5);
  const std::string text = comparisonText(c);
  EXPECT_TRUE(contains(text, "  0.250    0.100    0.800  all_reduce       B is faster\n")) << text;
  EXPECT_TRUE(contains(text, "  2.000        -        -  all_reduce\n")) << text;
  EXPECT_TRUE(contains(text, "# B takes 0.841 times A's time, in the geometric mean of 4 rows\n"))
      << text;  // the fourth root of 0.25 * 2 * 2 * 0.5
}

TEST(PerfCompare, NamesWhatOnlyOneFileHas) {
  PerfComparison c = compared(read(line(row(8, {1}, {1})) + line(row(16, {1}, {1}))),
                              read(line(row(8, {1}, {1})) + line(row(8, {1}, {1}), 2)));
  c.a = "old";
  c.b = "new";
  EXPECT_EQ(c.rows.size(), 2u);
  const std::string text = comparisonText(c);
  EXPECT_TRUE(contains(text, "# only in old: all_reduce of float32, sum, 4 ranks, 16 bytes\n"));
  EXPECT_TRUE(
      contains(text, "# only in new: all_reduce of float32, sum, 2 ranks, in place, 8 bytes\n"));
}

TEST(PerfCompare, RefusesFilesThatDoNotFit) {
  const tests::TemporaryFolder folder;
  const std::string a = folder.path() / "a", b = folder.path() / "b";
  std::ofstream(a) << line(row(8, {1}, {1}));
  std::ofstream(b) << line(row(8, {1}, {1}), 2);
  const auto why = [](const std::string& one, const std::string& other) -> std::string {
    try {
      compareFiles(one, other);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why(a, a), "accepted");
  EXPECT_EQ(why(a, b), "--compare: no call is in both files: " + a +
                           " has all_reduce of float32, sum, 4 ranks, and " + b +
                           " all_reduce of float32, sum, 2 ranks");
  EXPECT_EQ(why(a, b + "x"), "--compare " + b + "x is not there, or is no regular file");
  // To open it would wait for a writer.
  ASSERT_EQ(::mkfifo((b + ".pipe").c_str(), 0600), 0);
  EXPECT_EQ(why(a, b + ".pipe"), "--compare " + b + ".pipe is not there, or is no regular file");
}

TEST(PerfCompare, BelievesNothing) {
  const std::string good = line(row(8, {1, 2}, {1}));
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_TRUE(refusal(good + good)
                  .ends_with("8 bytes, is there already: take --repeat to measure "
                             "several times"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal("" + text.replace(at, from.size(), to));
  };
  EXPECT_EQ(refusal("{\"step\":1}\n"), "f, line 1: key 'collective' not found");
  EXPECT_TRUE(with("\"ranks\":4", "\"ranks\":0").starts_with("f, line 1: ranks is 0, not between"));
  EXPECT_TRUE(contains(with("\"ranks\":4", "\"ranks\":4.5"), "ranks is 4.5, no whole number"));
  EXPECT_TRUE(contains(with("\"ranks\":4", "\"rank\":4"), "ranks is no number"));
  EXPECT_TRUE(contains(with("\"root\":-1", "\"root\":4"), "root is 4, not between -1 and 3"));
  EXPECT_TRUE(contains(with("\"bytes\":8", "\"bytes\":-8"), "bytes is -8, not between"));
  EXPECT_TRUE(contains(with("\"bytes\":8", "\"bytes\":1e300"), "bytes is 1e+300, not between"));
  EXPECT_TRUE(contains(with("all_reduce", "al_reduce"), "did you mean all_reduce?"));
  EXPECT_TRUE(contains(with("float32", "float33"), "there is no such type"));
  EXPECT_TRUE(contains(with("\"sum\"", "\"\\\"`reboot`\""), "there is no such op"));
  EXPECT_TRUE(contains(with("[1.0,2.0]", "[]"), "repetitions_us is no list of 1 to 1000 times"));
  EXPECT_TRUE(
      contains(with("[1.0,2.0]", "[1.0,0.0]"), "a time of repetitions_us is 0, not between"));
  EXPECT_TRUE(contains(with("[1.0,2.0]", "[1.0,\"2\"]"), "a time of repetitions_us is no number"));
  EXPECT_TRUE(refusal("[]").starts_with("f, line 1: not an object"));
  EXPECT_TRUE(refusal(good + "{").starts_with("f, line 2: this is no JSON: parse error at "));
  EXPECT_EQ(with("\"ranks\":4", "\"ranks\":4,\"ranks\":4"),
            "f, line 1: this: ranks is there twice");
  EXPECT_EQ(refusal(std::string((1 << 20) + 1, ' ')), "f, line 1: it is longer than 1 MiB");
}

TEST(PerfCompare, DrawsARatioOverEachSize) {
  const std::string once =
      comparisonScript(compared(read(line(row(8, {1}, {1}))), read(line(row(8, {2}, {4})))));
  EXPECT_TRUE(contains(once, "$CURVE1 << EOD\n8 2\nEOD\n")) << once;
  EXPECT_TRUE(contains(once,
                       "$CURVE2 using 1:2 title \"all_reduce of float32, sum, 4 ranks, in "
                       "place\""))
      << once;
  const std::string repeated = comparisonScript(
      compared(read(line(row(8, {1, 2, 4}, {1, 1}))), read(line(row(8, {2, 2, 2}, {4, 4})))));
  EXPECT_TRUE(contains(repeated, "8 1 0.5 2\n")) << repeated;
  EXPECT_TRUE(contains(repeated, "using 1:2:3:4 with yerrorlines")) << repeated;
  EXPECT_THROW(
      comparisonScript(compared(read(line(row(0, {1}, {1}))), read(line(row(0, {1}, {1}))))),
      Error);
}

TEST(PerfRepetitions, BecomeMediansOfAll) {
  const auto timing = [](double us, double p99, int64_t wrong) {
    return PerfTiming{.timeUs = us, .p99Us = p99, .wrong = wrong, .iterations = 5};
  };
  std::vector<PerfRow> all(3, {.bytes = 4000, .count = 1000});
  all[0].outOfPlace = timing(10, 11, 0);
  all[1].outOfPlace = timing(2, 30, 7);
  all[2].outOfPlace = timing(4, 5, 0);
  const PerfRow merged = mergedRepetitions(all, 1.5);
  EXPECT_EQ(merged.outOfPlace.timeUs, 4);
  EXPECT_EQ(merged.outOfPlace.p99Us, 11);
  EXPECT_EQ(merged.outOfPlace.wrong, 7);
  EXPECT_EQ(merged.outOfPlace.iterations, 15);
  EXPECT_EQ(merged.outOfPlace.repetitionsUs, (std::vector<double>{10, 2, 4}));
  EXPECT_DOUBLE_EQ(merged.outOfPlace.algorithmGBps, 1);
  EXPECT_DOUBLE_EQ(merged.outOfPlace.busGBps, 1.5);
  EXPECT_FALSE(merged.inPlace);
}

}  // namespace
}  // namespace tutti::tools
