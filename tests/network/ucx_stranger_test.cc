// A stranger on a third host, whom nobody has told a key, and the ports of a job whose data goes by
// UCX: a segment of his gets no answer, writes nothing, and the job goes on. Ranks are processes,
// hosts are namespaces of this machine on one switch.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/file_descriptor.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/child_processes.h"
#include "tests/support/network_hosts.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using base::FileDescriptor;
using Context = RankProcesses::Context;
using UcxStranger = WithNetworkHosts;

/// At one address in all processes, which are forked: where the stranger aims.
constexpr uint64_t kUnharmed = 0x1111111111111111;
volatile uint64_t target = kUnharmed;

/// TCP ports at which a process of the host listens.
std::vector<in_port_t> portsOf(const NetworkHosts& hosts, int host) {
  std::istringstream table(hosts.run(host, {"cat", "/proc/thread-self/net/tcp"}));
  std::vector<in_port_t> ports;
  for (std::string line; std::getline(table, line);) {
    unsigned port = 0, state = 0;
    constexpr unsigned kListens = 10;
    if (std::sscanf(line.c_str(), " %*d: %*x:%x %*x:%*x %x", &port, &state) == 2 &&
        state == kListens)
      ports.push_back(static_cast<in_port_t>(port));
  }
  return ports;
}

/// Empty where nothing has answered for a second.
FileDescriptor connectTo(const std::string& address, in_port_t port) {
  FileDescriptor socket(TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = ::inet_addr(address.c_str());
  to.sin_port = ::htons(port);
  ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  pollfd ready{socket.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 1000) != 1 || (ready.revents & POLLERR) != 0) return {};
  return socket;
}

/// UCX's words over TCP for "I am a peer", and for "write this there".
base::Bytes attack() {
  base::ByteWriter out;
  out.put(uint64_t{0xCAFEBABE12345678}).put(uint8_t{0x20}).put(uint32_t{29});
  out.put(uint32_t{1}).put(uint8_t{0}).put(uint64_t{7});
  out.put(uint16_t{AF_INET}).put(uint16_t{0}).put(uint32_t{0}).put(uint64_t{0});
  out.put(uint8_t{0x21}).put(uint32_t{20}).put(reinterpret_cast<uint64_t>(&target));
  out.put(uint64_t{sizeof target}).put(uint32_t{1}).put(uint64_t{0xdeadbeefcafef00d});
  return out.take();
}

/// A process on `host` attacks host 0 at all of its `ports`: how many have answered.
int answersTo(const NetworkHosts& hosts, int host, const std::vector<in_port_t>& ports,
              const base::Bytes& says) {
  return inChild([&] {
    hosts.enter(host);
    std::vector<std::thread> attempts;
    std::atomic<int> answers{0};
    for (const in_port_t port : ports)
      attempts.emplace_back([&, port] {
        const FileDescriptor socket = connectTo(hosts.address(0), port);
        if (!socket) return;
        ++answers;
        ::send(socket.get(), says.data(), says.size(), MSG_NOSIGNAL);
        std::this_thread::sleep_for(500ms);
      });
    for (std::thread& each : attempts) each.join();
    return answers.load();
  });
}

/// Calls for five seconds. 1 where memory was written to.
int reduceForAWhile(const Context& context) {
  Communicator c = context.join({.timeout = 30s, .transport = "ucx"});
  const int64_t end = nowMs() + 5000;
  const auto reduce = [&](int one) {
    c.allReduce(
        {.send = &one, .recv = &one, .count = 1, .type = DataType::Int32, .op = ReduceOp::Max});
    return one;
  };
  reduce(0);
  context.say("reduces");
  while (reduce(nowMs() > end ? 1 : 0) == 0) std::this_thread::sleep_for(1ms);
  context.say("goes on");
  return target == kUnharmed ? 0 : 1;
}

TEST_F(UcxStranger, IsNotAnsweredAndWritesNothing) {
  const NetworkHosts hosts(3);
  RankProcesses ranks(2, reduceForAWhile, [&](int rank) { hosts.enter(rank); });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 30s)) << ranks.output(r);
  const std::vector<in_port_t> ports = portsOf(hosts, 0);
  ASSERT_GE(ports.size(), 2u);
  const int toPeer = answersTo(hosts, 1, ports, {});
  const int toStranger = answersTo(hosts, 2, ports, attack());
  EXPECT_EQ(toStranger, toPeer - 2) << "UCX's port and the probe responder's are for hosts of the "
                                       "job; the control plane's prove who comes themselves";
  EXPECT_TRUE(ranks.allSucceed(30s));
  for (int r = 0; r < 2; ++r)
    EXPECT_NE(ranks.output(r).find("goes on"), std::string::npos) << ranks.output(r);
}

}  // namespace
}  // namespace tutti::tests
