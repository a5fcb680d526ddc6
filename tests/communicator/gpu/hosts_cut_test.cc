// Processes on GPUs of several hosts, which are network namespaces: when the network of their data
// parts, and that of control does not, the call that waits ends, and a graph's replay.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "tests/communicator/gpu/ranks.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr size_t kCount = 5000;

/// As loopAllReduce(), on the rank's GPU.
int loopOnGpu(const Context& context, bool replays) {
  Communicator c = context.join({.timeout = 60s, .device = gpu(0)});
  Stream stream(c.device());
  Floats x(c.device(), kCount, 1), y(c.device(), kCount, 0);
  const auto reduce = [&] {
    c.allReduce({.send = x.data(), .recv = y.data(), .count = kCount}, stream);
  };
  const cudaStream_t its = StreamRef(stream).cuda();
  const cudaGraphExec_t exec = capture(c, its, reduce);
  std::optional<Error> error;
  for (bool isFirst = true; !error; isFirst = false) {
    try {
      if (replays)
        EXPECT_EQ(cudaGraphLaunch(exec, its), cudaSuccess);
      else
        reduce();
      stream.synchronize();
      error = c.asyncError();
    } catch (const Error& e) {
      error = e;
    }
    if (isFirst && !error) context.say(y.are(2) ? "reduces" : "reduces wrongly");
  }
  sayEnded(context, error->code(), error->what());
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  return testing::Test::HasFailure();
}

using GpuHostsCut = WithNetworkHosts;

TEST_F(GpuHostsCut, ThatHaveAnotherNetworkForControlAreNamed) {
  const NetworkHosts hosts(2);
  hosts.addTunnel();
  RankProcesses ranks(
      2, [](const Context& context) { return loopOnGpu(context, context.rank == 1); },
      [&](int rank) {
        enterByUcx(hosts, rank);
        ::setenv("UCX_NET_DEVICES", NetworkHosts::kTunnel, 1);
        ::setenv("TUTTI_INTERFACE", NetworkHosts::kInterface, 1);
      });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 60s)) << ranks.output(r);
  ranks.signal(1, SIGSTOP);  // who is slow is waited for
  std::this_thread::sleep_for(7s);
  ranks.signal(1, SIGCONT);
  std::this_thread::sleep_for(1s);
  ASSERT_EQ(endOfLoop(ranks.output(0)), INT64_MAX) << ranks.output(0);
  const int64_t cut = nowMs();
  hosts.cutTunnel();
  ASSERT_TRUE(ranks.allSucceed(60s));
  for (int r = 0; r < 2; ++r) {
    const std::string out = ranks.output(r);
    EXPECT_LE(endOfLoop(out) - cut, kHostLossNoticedMs) << out;
    EXPECT_NE(out.find("peer lost|"), std::string::npos) << out;
    EXPECT_NE(
        out.find(" do not reach each other any more: the latter has not answered at 10.78.0."),
        std::string::npos)
        << out;
  }
}

}  // namespace
}  // namespace tutti::tests
