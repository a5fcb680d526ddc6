// NCCL's environment variables in Tutti's terms. They are read once in a process, so each case is a
// child, and the test itself reads none.

#include "src/nccl/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/nccl/config.h"
#include "tests/support/environment_variables.h"
#include "tests/support/text.h"

namespace tutti::nccl {
namespace {

using tests::contains;
using tests::withVariables;

TEST(NcclEnvironment, SaysNothingByItself) {
  withVariables({}, [] {
    const Environment& e = environment();
    EXPECT_FALSE(e.blocking || e.maxBlocks);
    EXPECT_EQ(e.rendezvousAddress + e.algorithm + e.transport, "");
    EXPECT_EQ(std::getenv("UCX_TLS"), nullptr);
  });
}

TEST(NcclEnvironment, HasWhatTuttiHasToo) {
  withVariables({{"NCCL_COMM_BLOCKING", "0"},
                 {"NCCL_COMM_ID", "10.0.0.1:4711"},
                 {"NCCL_ALGO", "tree"},
                 {"NCCL_MAX_CTAS", "16"},
                 {"NCCL_SHM_DISABLE", "1"},
                 {"NCCL_IB_DISABLE", "1"}},
                [] {
                  const Environment& e = environment();
                  EXPECT_EQ(e.blocking, false);
                  EXPECT_EQ(e.rendezvousAddress, "10.0.0.1:4711");
                  EXPECT_EQ(e.algorithm, "double_tree");
                  EXPECT_EQ(e.maxBlocks, 16);
                  EXPECT_EQ(e.transport, "tcp");
                  EXPECT_STREQ(std::getenv("UCX_TLS"), "^ib");
                });
  withVariables({{"NCCL_ALGO", "RING"}}, [] { EXPECT_EQ(environment().algorithm, "ring"); });
}

TEST(NcclEnvironment, LeavesOutWhatCannotBe) {
  withVariables({{"NCCL_COMM_BLOCKING", "yes"},
                 {"NCCL_ALGO", "Ring,Tree"},
                 {"NCCL_MAX_CTAS", "0"},
                 {"NCCL_SHM_DISABLE", "0"}},
                [] {
                  const Environment& e = environment();
                  EXPECT_FALSE(e.blocking || e.maxBlocks);
                  EXPECT_EQ(e.algorithm + e.transport, "");
                });
  for (const char* blocks : {"-1", "4x", "", "99999999999"})
    withVariables({{"NCCL_MAX_CTAS", blocks}}, [] { EXPECT_FALSE(environment().maxBlocks); });
}

TEST(NcclEnvironment, GoesAfterTuttisOwnVariables) {
  withVariables({{"NCCL_ALGO", "Ring"},
                 {"TUTTI_ALGORITHM", "two_shot"},
                 {"NCCL_MAX_CTAS", "16"},
                 {"TUTTI_GPU_BLOCKS", "8"},
                 {"NCCL_SHM_DISABLE", "1"},
                 {"TUTTI_TRANSPORT", "shm"},
                 {"NCCL_IB_DISABLE", "1"},
                 {"UCX_TLS", "tcp"}},
                [] {
                  const Environment& e = environment();
                  EXPECT_EQ(e.algorithm + e.transport, "");
                  EXPECT_FALSE(e.maxBlocks);
                  EXPECT_STREQ(std::getenv("UCX_TLS"), "tcp");
                });
}

TEST(NcclEnvironment, GoesBeforeConfigs) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  given.blocking = 1;
  given.maxCTAs = 3;
  withVariables({{"NCCL_COMM_BLOCKING", "0"}, {"NCCL_MAX_CTAS", "11"}}, [&] {
    EXPECT_FALSE(readConfig(&given).blocking);
    EXPECT_EQ(readConfig(&given).maxBlocks, 11);
    EXPECT_FALSE(readConfig(nullptr).blocking);
  });
}

TEST(NcclEnvironment, NamesOnceWhatHasNoMeaningHere) {
  testing::internal::CaptureStderr();
  withVariables({{"NCCL_NVLS_ENABLE", "1"},
                 {"NCCL_ALGO", "CollnetDirect"},
                 {"NCCL_SOCKET_IFNAME", "eth0"},
                 {"NCCL_DEBUG_SUBSYS", "INIT,COL"}},
                [] {
                  announce();
                  announce();
                });
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tutti [warning] variables without a meaning here, ignored: NCCL_ALGO "
            "NCCL_NVLS_ENABLE\n"
            "tutti [warning] NCCL_DEBUG_SUBSYS: words that are no subsystem of NCCL's, ignored: "
            "COL\n");
}

TEST(NcclEnvironment, IsQuietAboutWhatHasOne) {
  testing::internal::CaptureStderr();
  withVariables({{"NCCL_ALGO", "Ring"}, {"NCCL_COMM_BLOCKING", "1"}, {"NCCL_CUMEM_ENABLE", "0"}},
                announce);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tutti::nccl
