// A rank is killed that the others reach over RDMA. Over the control plane all of them know within
// a second; the transport itself tells as well, when its own timeouts have passed.

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/leftovers.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using base::FileDescriptor;
using Context = RankProcesses::Context;

constexpr int kRanks = 3;

/// A rank dies when all have said `line`; the others name it in time, and go on without.
void killWhen(const std::string& line, int victim, int64_t withinMs) {
  SCOPED_TRACE(base::message("rank ", victim, " is killed when all say \"", line, "\""));
  RankProcesses ranks(kRanks, [](const Context& context) {
    return loopAllReduce(context, true, {.transport = "ucx"});
  });
  for (int r = 0; r < kRanks; ++r) ASSERT_TRUE(ranks.awaitLine(r, line, 60s)) << ranks.output(r);
  const int64_t killed = nowMs();
  ranks.signal(victim, SIGKILL);
  for (int r = 0; r < kRanks; ++r) {
    if (r == victim) continue;
    EXPECT_EQ(ranks.wait(r, 60s), 0) << ranks.output(r);
    const std::string out = ranks.output(r);
    EXPECT_NE(out.find("peer lost|"), std::string::npos) << out;
    EXPECT_NE(out.find(base::message("rank ", victim, " (pid ")), std::string::npos) << out;
    EXPECT_LE(endOfLoop(out) - killed, withinMs) << out;
    EXPECT_NE(out.find("goes on with 2"), std::string::npos) << out;
    printf("rank %d knows of rank %d's death after %lld ms\n", r, victim,
           static_cast<long long>(endOfLoop(out) - killed));
  }
}

TEST(Death, IsNamedByAllSurvivors) {
  for (const int victim : {0, 2}) killWhen("reduces", victim, kDeathNoticedMs);
}

// While UCX makes its connections, which keeps an emulated processor from everything else.
TEST(Death, AtFirstUseIsNamedToo) {
  for (const int victim : {0, 2}) killWhen("joined", victim, kHostLossNoticedMs);
}

// ---- without a control plane

/// One of two ranks; their addresses cross `socket`, in packets.
std::unique_ptr<Endpoint> connect(int rank, int socket) {
  auto endpoint = transports::ucx::makeUcxEndpoint(transports::ucx::makeWorker(), rank, 2,
                                                   {.slotCount = 4, .slotBytes = 4096});
  const int peer = 1 - rank;
  const base::Bytes own = endpoint->address(peer).blob;
  TUTTI_SYSCALL(::send(socket, own.data(), own.size(), MSG_NOSIGNAL));
  base::Bytes theirs(65536);
  theirs.resize(
      static_cast<size_t>(TUTTI_SYSCALL(::recv(socket, theirs.data(), theirs.size(), 0))));
  endpoint->connect(peer, {std::move(theirs), {}});
  return endpoint;
}

/// Sends and takes messages until the connection is lost, or for ever; calls `onMessage` for each
/// that came. Returns what the transport said of the loss, and how long nothing had come.
std::string exchange(Endpoint& endpoint, int peer, const std::function<void(int)>& onMessage) {
  auto& send = endpoint.sendRing(peer, 0);
  auto& receive = endpoint.receiveRing(peer, 0);
  int64_t last = nowMs();
  for (int taken = 0;;) {
    if (send.ready()) send.publish(0, 0, 8);
    if (receive.ready()) {
      receive.release();
      last = nowMs();
      onMessage(++taken);
    }
    try {
      endpoint.progress();
    } catch (const transports::ConnectionLost& lost) {
      return base::message("after ", nowMs() - last, " ms of silence: ", lost.what());
    }
  }
}

TEST(Death, IsReportedByTheTransportItself) {
  int pair[2];
  TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
  const FileDescriptor ends[] = {FileDescriptor(pair[0]), FileDescriptor(pair[1])};
  ChildProcesses processes;
  processes.start([&] {
    const auto endpoint = connect(0, ends[0].get());
    const std::string said = exchange(*endpoint, 1, [](int) {});
    printf("%s\n", said.c_str());
    return said.find("rank 1 was lost: its connection broke: ") != std::string::npos ? 0 : 1;
  });
  processes.start([&] {
    const auto endpoint = connect(1, ends[1].get());
    exchange(*endpoint, 0, [](int taken) {
      if (taken == 100) ::raise(SIGKILL);
    });
    return 1;
  });
  EXPECT_EQ(processes.wait(1, 30s), 128 + SIGKILL);
  EXPECT_EQ(processes.wait(0, 60s), 0);
}

}  // namespace
}  // namespace tutti::tests
