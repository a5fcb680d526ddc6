#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/support/network_hosts.h"

namespace tutti::tests {

/// In a rank's process: moves it there, where hosts are joined by UCX.
inline void enterByUcx(const NetworkHosts& hosts, int host) {
  hosts.enter(host);
  ::setenv("TUTTI_TRANSPORT", "shm+ucx", 1);
}

/// Tests whose hosts are network namespaces; they skip where there can be none.
class WithNetworkHosts : public testing::Test {
 protected:
  void SetUp() override {
    static const std::optional<std::string> reason = NetworkHosts::unavailable();
    if (reason) GTEST_SKIP() << *reason;
  }
};

}  // namespace tutti::tests
