// Memory for measuring: what all ranks of a limit want together is refused before any of it is
// taken. The sizes here no machine has, so that nothing is taken either where nobody refuses.

#include <gtest/gtest.h>

#include <tutti/tutti.h>

#include "src/tools/common/memory_need.h"
#include "src/tools/perf/perf_call.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tools {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string refusal(const std::vector<MemoryNeed>& ranks) {
  const auto outcome = tests::outcomeOf([&] { requireRoom(ranks, "buffers"); });
  EXPECT_EQ(outcome.code == ErrorCode::OutOfMemory, outcome.text != "no error") << outcome.text;
  return outcome.text;
}

MemoryNeed need(uint64_t bytes, uint64_t left, const std::string& sharers = "here") {
  return {bytes, left, "the machine", sharers};
}

TEST(MemoryNeed, IsOfAllRanksThatShareALimit) {
  EXPECT_EQ(refusal({need(60 * kMiB, 100 * kMiB)}), "no error");
  EXPECT_EQ(
      refusal({need(60 * kMiB, 100 * kMiB), need(60 * kMiB, 100 * kMiB)}),
      "buffers: 2 ranks need together 125829120 bytes, and 104857600 are left in the machine: "
      "take smaller sizes or fewer ranks");
  EXPECT_EQ(refusal({need(60 * kMiB, 100 * kMiB), need(60 * kMiB, 100 * kMiB, "there")}),
            "no error");
  EXPECT_EQ(
      refusal({need(kMiB, kMiB - 1)}),
      "buffers: 1 rank needs 1048576 bytes, and 1048575 are left in the machine: take smaller "
      "sizes or fewer ranks");
  // One that looked later found less.
  EXPECT_NE(refusal({need(60 * kMiB, 200 * kMiB), need(60 * kMiB, 110 * kMiB)}), "no error");
}

// Containers of one machine are hosts.
TEST(MemoryNeed, ContainersShareTheMachineAndHaveTheirOwnGroups) {
  EXPECT_EQ(sharersOf("a", 0, "the machine"), sharersOf("a", 1, "the machine"));
  EXPECT_NE(sharersOf("a", 0, "the machine"), sharersOf("b", 1, "the machine"));
  const std::string group = "memory cgroup / (limit 1000 bytes)";
  EXPECT_EQ(sharersOf("a", 0, group), sharersOf("a", 0, group));
  EXPECT_NE(sharersOf("a", 0, group), sharersOf("a", 1, group));
  EXPECT_NE(sharersOf("a", 0, group), sharersOf("a", 0, "the machine"));
}

TEST(MemoryNeed, LeavesASmallPart) {
  EXPECT_EQ(refusal({need(31 * kMiB, 32 * kMiB)}), "no error");
  EXPECT_NE(refusal({need(31 * kMiB + 1, 32 * kMiB)}), "no error");
  EXPECT_EQ(refusal({need(0, 0)}), "no error");
}

TEST(MemoryNeed, IsNoMatterWhereNoLimitIsKnown) {
  EXPECT_EQ(refusal({need(UINT64_MAX, UINT64_MAX)}), "no error");
}

TEST(MemoryNeed, DoesNotWrapAround) {
  EXPECT_NE(refusal({need(UINT64_MAX / 2 + 2, kMiB), need(UINT64_MAX / 2 + 2, kMiB)}), "no error");
}

TEST(MemoryNeed, IsRefusedOnEveryRankAndAskedForByEveryCall) {
  const PerfOptions options{.collectiveName = "all_reduce", .windows = false};
  const uint64_t bytes = uint64_t{1} << 50;
  auto ranks = Communicator::createLocal(3);
  std::vector<std::string> said(3);
  tests::runRanks(ranks, [&](Communicator& c) {
    const auto refused = [&](const std::function<void()>& call) {
      const auto outcome = tests::outcomeOf(call);
      EXPECT_EQ(outcome.code, ErrorCode::OutOfMemory) << outcome.text;
      return outcome.text;
    };
    said[static_cast<size_t>(c.rank())] = refused([&] { PerfCall(c, options, {}, bytes); });
    EXPECT_NE(refused([&] {
                requireMemoryForCalls(c, options, bytes, 5);
              }).find("bytes by 5 algorithms: 3 ranks need together 33776997205278720 bytes"),
              std::string::npos);
    requireMemory(c, 4096, "little");
  });
  for (const std::string& text : said)
    EXPECT_TRUE(
        text.starts_with("buffers for all_reduce of 1125899906842624 bytes: 3 ranks need "
                         "together 6755399441055744 bytes, and "))
        << text;
}

// Where limits do not tell, as that of the address space.
TEST(PerfBuffer, SaysWhatWasWanted) {
  auto alone = Communicator::createLocal(1);
  std::vector<uint64_t> sizes{UINT64_MAX};
  if (!tests::kSanitized) sizes.push_back(uint64_t{1} << 62);  // a sanitizer ends the process
  for (const uint64_t bytes : sizes) {
    const auto outcome = tests::outcomeOf([&] { PerfBuffer(alone[0], bytes, false); });
    EXPECT_EQ(outcome.code, ErrorCode::OutOfMemory);
    EXPECT_TRUE(outcome.text.starts_with(std::to_string(bytes) + " bytes of ordinary memory for a "
                                                                 "buffer cannot be had"))
        << outcome.text;
  }
}

}  // namespace
}  // namespace tutti::tools
