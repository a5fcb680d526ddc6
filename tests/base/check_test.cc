// The three kinds of failure, and what each of them says.

#include "src/base/check.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>

#include "tests/support/text.h"

namespace tutti::base {
namespace {

using tests::contains;

/// Its kind and its text; "nothing" where it throws nothing.
std::string failureOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return message(toString(error.code()), ": ", error.what());
  }
  return "nothing";
}

TEST(Checks, OfTheCallerPrintTheirOperands) {
  const auto check = [](int count) {
    return failureOf([=] { TUTTI_REQUIRE(count > 0, "count is ", count, ", not above 0"); });
  };
  EXPECT_EQ(check(1), "nothing");
  EXPECT_EQ(check(-3), "invalid argument: count is -3, not above 0");
}

TEST(Checks, OfTuttiSayWhereAndWhat) {
  const auto check = [](int a, int b) {
    return failureOf([=] { TUTTI_ASSERT(a == b, a, " and ", b); });
  };
  EXPECT_EQ(check(2, 2), "nothing");
  const std::string said = check(2, 3);
  EXPECT_TRUE(said.starts_with("internal error: Tutti is wrong: ")) << said;
  EXPECT_TRUE(contains(said, "tests/base/check_test.cc:")) << said;
  EXPECT_TRUE(said.ends_with(": a == b: 2 and 3")) << said;
}

TEST(Checks, OfSystemCallsNameTheCallAndItsError) {
  EXPECT_EQ(failureOf([] { TUTTI_SYSCALL(::close(-1)); }),
            "system error: ::close(-1) failed: EBADF (Bad file descriptor)");
  EXPECT_EQ(failureOf([] { failSyscall("connect", ECONNREFUSED, "to rank 3"); }),
            "system error: connect failed: ECONNREFUSED (Connection refused): to rank 3");
  EXPECT_TRUE(contains(failureOf([] { failSyscall("call", 123456); }), "call failed: ?"));
}

TEST(Checks, OfSystemCallsGiveTheResultAndGoOnWhenInterrupted) {
  EXPECT_EQ(TUTTI_SYSCALL(::getpid()), ::getpid());
  int calls = 0;
  const auto interrupted = [&] {
    errno = EINTR;
    return ++calls < 3 ? -1 : 42;
  };
  EXPECT_EQ(TUTTI_SYSCALL(interrupted()), 42);
  EXPECT_EQ(calls, 3);
}

TEST(ErrorCodes, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  constexpr int kCount = static_cast<int>(ErrorCode::Internal) + 1;
  for (int code = 0; code < kCount; ++code) names.insert(toString(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kCount));
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(toString(static_cast<ErrorCode>(kCount)), "unknown");
}

}  // namespace
}  // namespace tutti::base
