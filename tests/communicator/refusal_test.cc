// A rank whose own settings cannot be: it comes to the others, and all of them hear which rank it
// is and why, long before the deadline of set-up.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include <tutti/tutti.h>

#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;

/// What is wrong on one rank, a variable or its options, and what all ranks say then.
struct Case {
  int wrong;
  ErrorCode code;
  std::string why;
  std::pair<std::string, std::string> variable = {};
  CommunicatorOptions options = {};
};

void expectRefusal(const Case& its, CommunicatorOptions others = {}) {
  others.setupTimeout = 60s;
  RankProcesses ranks(
      kRanks,
      [&](const RankProcesses::Context& context) {
        const bool wrong = context.rank == its.wrong;
        const Outcome outcome = outcomeOf([&] { context.join(wrong ? its.options : others); });
        context.say(outcome.text);
        return outcome.code == its.code ? 0 : 1;
      },
      [&](int rank) {
        const auto& [name, value] = its.variable;
        if (rank == its.wrong && !name.empty()) ::setenv(name.c_str(), value.c_str(), 1);
      });
  EXPECT_TRUE(ranks.allSucceed(30s)) << its.why;
  for (int rank = 0; rank < kRanks; ++rank)
    for (const std::string& part :
         {"rank " + std::to_string(its.wrong) + " (pid " + std::to_string(ranks.pid(its.wrong)),
          its.why})
      EXPECT_NE(ranks.output(rank).find(part), std::string::npos)
          << part << " in: " << ranks.output(rank);
}

TEST(Refusal, OfAVariableIsToldToAllRanks) {
  const TemporaryFiles files;
  const std::string file = testing::TempDir() + "refusal_test_tuning.txt";
  std::ofstream(file) << R"([[prefer]]
collective = "alltoall"
ranks = 2
hosts = 1
bytes = 4096
algorithm = "ring")";
  expectRefusal({0, ErrorCode::InvalidArgument, file, {"TUTTI_TUNING", file}});
  expectRefusal({0, ErrorCode::InvalidArgument, file + "_none", {"TUTTI_TUNING", file + "_none"}});
  expectRefusal({1, ErrorCode::InvalidArgument, "transport \"udp\"", {"TUTTI_TRANSPORT", "udp"}});
  expectRefusal({2, ErrorCode::InvalidArgument, "nosuch", {"TUTTI_ALGORITHM", "nosuch"}});
  expectRefusal({1,
                 ErrorCode::InvalidArgument,
                 "/none/plan.json is not there",
                 {"TUTTI_ALGORITHM_FILE", "/none/plan.json"}});
  for (const char* name : {"TUTTI_SETUP_TIMEOUT_MS", "TUTTI_SLOT_BYTES", "TUTTI_LOG"})
    expectRefusal({1, ErrorCode::InvalidArgument, std::string(name) + "=many is", {name, "many"}});
  ASSERT_EQ(std::remove(file.c_str()), 0);
}

TEST(Refusal, OfAnOptionIsToldToAllRanks) {
  const auto code = ErrorCode::InvalidArgument;
  expectRefusal({0, code, "transport \"udp\"", {}, {.transport = "udp"}});
  expectRefusal({1, code, "timeout -1 ms", {}, {.timeout = -1ms}});
  expectRefusal({2, code, "set-up -1 ms", {}, {.setupTimeout = -1ms}});
  expectRefusal({1,
                 code,
                 "/own/plan.json is not there",
                 {"TUTTI_ALGORITHM_FILE", "/none/plan.json"},
                 {.algorithmFile = "/own/plan.json"}});
  expectRefusal({0, code, "there is no device host:1", {}, {.device = {DeviceKind::Host, 1}}});
}

// UCX is asked when the ranks have met.
TEST(Refusal, OfUcxIsToldToAllRanks) {
  const CommunicatorOptions overUcx{.transport = "ucx"};
  for (const std::string value : {"", "nosuch"})
    expectRefusal({1,
                   ErrorCode::System,
                   "UCX finds no device for UCX_TLS=" + value,
                   {"UCX_TLS", value},
                   overUcx},
                  overUcx);
}

}  // namespace
}  // namespace tutti::tests
