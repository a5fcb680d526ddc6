// Communicators over links that lose, delay and reorder what hosts send, and over one that goes
// silent. It runs wherever the kernel has netem; tests/rdma brings one that has.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <tutti/tutti.h>

#include "src/base/check.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/collective_checks.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr int kHosts = 3;
constexpr int kSlowHost = 2;

class NetemHosts : public testing::Test {
 protected:
  static void SetUpTestSuite() { reason_ = NetworkHosts::netemUnavailable(); }
  void SetUp() override {
    if (reason_) GTEST_SKIP() << *reason_;
  }
  static std::optional<std::string> reason_;
};
std::optional<std::string> NetemHosts::reason_;

/// Milliseconds that so many AllReduces took, each of which was right. Rank 0 has a word between
/// one and the next, so that the slow host cannot send ahead of what it was waited for.
int64_t timeOfReductions(Communicator& c, int count) {
  c.barrier();
  const int64_t begin = nowMs();
  for (int i = 0; i < count; ++i) {
    int x = c.rank() + i, sum = 0;
    c.allReduce({.send = &x, .recv = &sum, .count = 1, .type = DataType::Int32});
    EXPECT_EQ(sum, kHosts * (kHosts - 1) / 2 + kHosts * i);
    c.broadcast({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
  }
  return nowMs() - begin;
}

/// Of what one host sends, and what shows that it was in force.
struct Disturbance {
  std::string name;
  std::vector<std::string> netem;
  int reductions;
  int64_t leastMs;   ///< that these take: all but the first wait for one late packet each, or most
  bool loses;        ///< a hundredth of a thousand packets or more
  std::string told;  ///< by the slow host, of its links to both others
};

void PrintTo(const Disturbance& disturbance, std::ostream* out) { *out << disturbance.name; }

const Disturbance kDisturbances[] = {
    {"loss", {"loss", "1%"}, 300, 0, true, "packets had to be sent again"},
    {"delay", {"delay", "200ms"}, 6, 1000, false, "a packet's round trip takes 2"},
    {"reordering", {"delay", "20ms", "reorder", "25%", "50%"}, 20, 100, false, ""},
};

/// Warnings of this process, while it is there.
class Warnings {
 public:
  Warnings() {
    setLogSink([this](LogLevel level, std::string_view line) {
      if (level < LogLevel::Warning) return;
      std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~Warnings() {
    setLogSink([](LogLevel, std::string_view) {});
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> lines() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }
  bool tell(const std::string& of, const std::string& what) const {
    return std::ranges::any_of(lines(), [&](const std::string& line) {
      const size_t at = line.find(of);
      return at != std::string::npos && line.find(what, at) != std::string::npos;
    });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Works on until this rank, and all others, have been told, or half a minute.
void reduceUntil(Communicator& c, const std::function<bool()>& told) {
  const int64_t begin = nowMs();
  for (int waiting = 1; waiting > 0 && nowMs() - begin < 30'000;) {
    int own = !told();
    c.allReduce({.send = &own, .recv = &waiting, .count = 1, .type = DataType::Int32});
    std::vector<float> x(20'000, 1);
    c.allReduce({.send = x.data(), .recv = x.data(), .count = x.size()});
  }
}

class OneSlowLink : public NetemHosts, public testing::WithParamInterface<Disturbance> {};

// Row 10: every collective is right, and nobody is taken for dead.
TEST_P(OneSlowLink, DelaysCollectivesAndSpoilsNone) {
  const Disturbance& disturbance = GetParam();
  const NetworkHosts hosts(kHosts);
  hosts.disturb(kSlowHost, disturbance.netem);
  RankProcesses ranks(
      kHosts,
      [&](const Context& context) {
        const Warnings warnings;
        Communicator c = context.join({.timeout = 60s});
        timeOfReductions(c, 1);  // connections are made
        const int64_t time = timeOfReductions(c, disturbance.reductions);
        EXPECT_GE(time, disturbance.leastMs);
        for (const size_t count : {1, 70001})
          checkAll(c, {.count = count, .root = static_cast<int>(count) % c.size()});
        context.say(base::message(disturbance.reductions, " AllReduces took ", time, " ms"));
        const auto told = [&] {
          if (disturbance.told.empty() || context.rank != kSlowHost) return true;
          return warnings.tell("slow link to host n0 (", disturbance.told) &&
                 warnings.tell("slow link to host n1 (", disturbance.told);
        };
        reduceUntil(c, told);
        EXPECT_TRUE(told());
        for (const std::string& line : warnings.lines()) context.say(line);
        return 0;
      },
      [&](int rank) { hosts.enter(rank); });
  EXPECT_TRUE(ranks.allSucceed(120s));
  if (disturbance.loses) {
    EXPECT_GE(hosts.lostPackets(kSlowHost), 1);
  }
  printf("%s: %s%s\n", disturbance.name.c_str(), ranks.output(0).c_str(),
         ranks.output(kSlowHost).c_str());
}

INSTANTIATE_TEST_SUITE_P(Netem, OneSlowLink, testing::ValuesIn(kDisturbances),
                         [](const auto& one) { return one.param.name; });

// Row 10: who waits says for whom, and where that is; and which link it is, whoever waits.
TEST_F(NetemHosts, TheSlowLinkIsNamed) {
  const NetworkHosts hosts(kHosts);
  hosts.disturb(kSlowHost, {"delay", "600ms"});
  RankProcesses ranks(
      kHosts,
      [](const Context& context) {
        const Warnings warnings;
        Communicator c = context.join({.timeout = 60s, .straggler = 250ms});
        timeOfReductions(c, 4);
        reduceUntil(c, [&] {
          return context.rank == kSlowHost || warnings.tell("slow link to host n2 (", " takes 6");
        });
        for (const std::string& line : warnings.lines()) context.say(line);
        return 0;
      },
      [&](int rank) { hosts.enter(rank); });
  ASSERT_TRUE(ranks.allSucceed(60s));
  for (const int rank : {0, 1}) {
    const std::string out = ranks.output(rank);
    const size_t straggler = out.find("straggler: rank 2 (pid ");
    ASSERT_NE(straggler, std::string::npos) << out;
    EXPECT_NE(out.find("on host n2", straggler), std::string::npos) << out;
    const size_t link = out.find("slow link to host n2 (");
    ASSERT_NE(link, std::string::npos) << out;
    EXPECT_NE(out.find("a packet's round trip takes 6", link), std::string::npos) << out;
    EXPECT_EQ(out.find("slow link to host n" + std::to_string(1 - rank)), std::string::npos) << out;
    printf("%s", out.c_str());
  }
}

// Row 11: nothing says that the link is down, packets just do not come.
TEST_F(NetemHosts, ASilentPartitionIsNamedOnBothSides) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(
      4, [](const Context& context) { return loopAllReduce(context, true); },
      [&](int rank) { hosts.enter(rank / 2); });
  for (int r = 0; r < 4; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 60s)) << ranks.output(r);
  for (const int host : {0, 1}) hosts.disturb(host, {"loss", "100%"});
  const int64_t cut = nowMs();
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(ranks.wait(r, 60s), 0) << ranks.output(r);
    const std::string out = ranks.output(r);
    EXPECT_NE(out.find("peer lost|"), std::string::npos) << out;
    EXPECT_NE(out.find(r < 2 ? "on host n1" : "on host n0"), std::string::npos) << out;
    EXPECT_LE(endOfLoop(out) - cut, kHostLossNoticedMs) << out;
    EXPECT_NE(out.find("goes on with 2"), std::string::npos) << out;
    printf("rank %d: %lld ms\n", r, static_cast<long long>(endOfLoop(out) - cut));
  }
}

}  // namespace
}  // namespace tutti::tests
