#pragma once

// How and when the work of a rank that is a process failed, as it tells its parent.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <string>

#include "tests/support/all_reduce_loop.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {

/// Runs the body until it fails and says when, and "code|what".
inline void reportFailure(const RankProcesses::Context& context,
                          const std::function<void()>& body) {
  const Outcome outcome = outcomeOf(body);
  context.say("failed-at " + std::to_string(nowMs()));
  context.say(std::string(toString(outcome.code)) + "|" + outcome.text);
}

/// The rank ends, and has failed by a text with all `words` within `withinMs` of `sinceMs`.
inline void expectReported(RankProcesses& ranks, int rank, std::initializer_list<std::string> words,
                           int64_t sinceMs, int64_t withinMs) {
  ASSERT_EQ(ranks.wait(rank, std::chrono::seconds(20)), 0) << ranks.output(rank);
  const std::string out = ranks.output(rank);
  for (const std::string& each : words) EXPECT_NE(out.find(each), std::string::npos) << out;
  const auto at = out.find("failed-at ");
  ASSERT_NE(at, std::string::npos) << out;
  EXPECT_LE(std::stoll(out.substr(at + 10)) - sinceMs, withinMs) << out;
}

}  // namespace tutti::tests
