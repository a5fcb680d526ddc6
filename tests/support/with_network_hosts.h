#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/network_hosts.h"

namespace tutti::tests {

/// Tests whose hosts are network namespaces; they skip where there can be none.
class WithNetworkHosts : public testing::Test {
 protected:
  void SetUp() override {
    static const std::optional<std::string> reason = NetworkHosts::unavailable();
    if (reason) GTEST_SKIP() << *reason;
  }
};

}  // namespace tutti::tests
