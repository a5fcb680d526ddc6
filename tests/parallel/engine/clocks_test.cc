// How far the clocks of ranks are apart, as if they were of one machine and of several.

#include "parallel/engine/clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

// As of another host: these clocks are one, and what is made out is within the longest of the
// barriers, from when all had come until the last had left.
TEST(Clocks, OfOtherHostsAreKnownWithinABarrier) {
  struct Read {
    ClockReadings readings;
    int64_t longest;
  };
  const auto read = onRanks(3, false, [](DeviceMesh& mesh) {
    MeshCommunicator* const all = mesh.communicator(AxisSet::all());
    all->barrier();
    const auto begin = Trace::Clock::now();
    const ClockReadings readings = readClock(all);
    return Read{readings, std::chrono::nanoseconds(Trace::Clock::now() - begin).count()};
  });
  ClockReadings first = read[0].readings;
  for (const Read& own : read) EXPECT_EQ(nanosecondsAhead(own.readings, first), 0) << "one boot";
  first.boot = "of another machine";
  for (const Read& own : read)
    EXPECT_LE(std::abs(nanosecondsAhead(own.readings, first)),
              std::max(own.longest, read[0].longest));
  EXPECT_EQ(ClockReadings::parse(first.text().substr(first.text().rfind(' '))).left.size(), 1u);
}

TEST(Clocks, ThatAreApartAreFound) {
  const ClockReadings first{"a", {100, 200, 300, 400, 500}};
  EXPECT_EQ(nanosecondsAhead({"b", {1100, 1205, 1290, 9000, 1501}}, first), 1001);
  EXPECT_EQ(nanosecondsAhead({"a", {1100, 1205, 1290, 9000, 1501}}, first), 0);
  const ClockReadings unknown{"", first.left};
  EXPECT_EQ(nanosecondsAhead({"", {90, 190, 290, 390, 490}}, unknown), -10) << "no boot is known";
  EXPECT_EQ(ClockReadings::parse(first.text()).left, first.left);
  EXPECT_EQ(ClockReadings::parse(first.text()).boot, "a");
}

}  // namespace
}  // namespace tutti::parallel
