#pragma once

// A child of a test with an environment of its own.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/support/child_processes.h"

namespace tutti::tests {

using Variables = std::vector<std::pair<const char*, const char*>>;

/// Runs `body` in a child whose environment is these variables alone; its failures are the test's.
inline void withVariables(const Variables& variables, const std::function<void()>& body) {
  EXPECT_EQ(inChild([&] {
              ::clearenv();
              for (const auto& [name, value] : variables) ::setenv(name, value, 1);
              body();
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

}  // namespace tutti::tests
