// A host that falls silent, noticed by UCX itself: over TCP alone, with nothing under way. The
// library's settings of the kernel's probes see to it; with UCX's own it takes 16 s. UCX's
// keep-alive is off here: what it sends is under way, and then the kernel does not probe.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "transports/ucx/endpoint.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using transports::Endpoint;

constexpr int kMessages = 20;  // each way, before the silence

/// What two ranks and the test tell each other.
struct Wires {
  Wires() {
    TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, addresses));
    TUTTI_SYSCALL(::pipe2(quiet, O_CLOEXEC));
    TUTTI_SYSCALL(::pipe2(cut, O_CLOEXEC));
  }
  ~Wires() {
    for (const int* pair : {addresses, quiet, cut})
      for (int end = 0; end < 2; ++end) ::close(pair[end]);
  }
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  int addresses[2] = {};
  int quiet[2] = {};  // a byte of each rank that has nothing more to say
  int cut[2] = {};    // readable when the cable is out
};

std::unique_ptr<Endpoint> connect(int rank, const Wires& wires) {
  auto endpoint = transports::ucx::makeUcxEndpoint(
      transports::ucx::makeWorker({.devices = NetworkHosts::kInterface, .tls = "tcp,self"}), rank,
      2, {.slotCount = 4, .slotBytes = 4096});
  const int socket = wires.addresses[rank];
  const base::Bytes own = endpoint->address(1 - rank).blob;
  TUTTI_SYSCALL(::send(socket, own.data(), own.size(), MSG_NOSIGNAL));
  base::Bytes theirs(65536);
  theirs.resize(
      static_cast<size_t>(TUTTI_SYSCALL(::recv(socket, theirs.data(), theirs.size(), 0))));
  endpoint->connect(1 - rank, {std::move(theirs), {}});
  return endpoint;
}

void exchange(Endpoint& endpoint, int peer) {
  auto& send = endpoint.sendRing(peer, 0);
  auto& receive = endpoint.receiveRing(peer, 0);
  for (int sent = 0, taken = 0; sent < kMessages || taken < kMessages; endpoint.progress()) {
    if (sent < kMessages && send.ready()) {
      send.publish(static_cast<uint32_t>(sent), 0, 8);
      ++sent;
    }
    if (taken < kMessages && receive.ready()) {
      receive.release();
      ++taken;
    }
  }
}

/// Waits for a message that never comes, until `isOver`. Returns what the transport says of the
/// peer; nothing when it says nothing.
std::string listenUntil(Endpoint& endpoint, const std::function<bool()>& isOver) {
  while (!isOver()) {
    try {
      endpoint.progress();
    } catch (const transports::ConnectionLost& lost) {
      return lost.what();
    }
    std::this_thread::sleep_for(1ms);
  }
  return {};
}

/// For so long.
std::string listen(Endpoint& endpoint, std::chrono::milliseconds time) {
  const auto deadline = base::Deadline::after(time);
  return listenUntil(endpoint, [&] { return deadline.passed(); });
}

bool isReadable(int descriptor, std::chrono::milliseconds within = 0ms) {
  pollfd look{descriptor, POLLIN, 0};
  return ::poll(&look, 1, static_cast<int>(within.count())) == 1;
}

constexpr int kHeardNothing = 2;

/// The exit code says what was heard within the failure model's time for a lost host.
int hearOfSilence(int rank, const Wires& wires) {
  const auto endpoint = connect(rank, wires);
  exchange(*endpoint, 1 - rank);
  listen(*endpoint, 500ms);  // the last credits leave
  TUTTI_SYSCALL(::write(wires.quiet[1], "q", 1));
  std::string said = listenUntil(*endpoint, [&] { return isReadable(wires.cut[0]); });
  if (said.empty()) said = listen(*endpoint, std::chrono::milliseconds(kHostLossNoticedMs));
  std::printf("rank %d hears: %s\n", rank, said.empty() ? "nothing" : said.c_str());
  std::fflush(stdout);
  const std::string expected = base::message("rank ", 1 - rank, " was lost: ");
  return said.empty() ? kHeardNothing : said.starts_with(expected) ? 0 : 1;
}

using Variables = std::map<std::string, std::string>;

/// Two ranks on hosts of their own exchange messages; when all is quiet one host is unplugged.
struct Silence {
  /// The user's settings of UCX.
  explicit Silence(const Variables& variables) : hosts(2) {
    for (int rank = 0; rank < 2; ++rank)
      processes.start([&, rank] {
        hosts.enter(rank);
        for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
        return hearOfSilence(rank, wires);
      });
    char byte = 0;
    for (int rank = 0; rank < 2; ++rank) {
      TUTTI_ASSERT(isReadable(wires.quiet[0], 60s), rank, " of the ranks are quiet");
      TUTTI_SYSCALL(::read(wires.quiet[0], &byte, 1));
    }
    hosts.unplug(1);
    TUTTI_SYSCALL(::write(wires.cut[1], "c", 1));
  }

  const Wires wires;
  const NetworkHosts hosts;
  ChildProcesses processes;
};

TEST(SilentHosts, AreNoticedByUcxItself) {
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  // Host 0, whose own link is there: the kernel counts no probe that it could not send.
  Silence ours(Variables{{"UCX_KEEPALIVE_INTERVAL", "inf"}});
  // What the user sets stays; and it is this setting that notices.
  Silence users(Variables{{"UCX_KEEPALIVE_INTERVAL", "inf"}, {"UCX_TCP_KEEPIDLE", "60s"}});
  EXPECT_EQ(ours.processes.wait(0, 30s), 0);
  EXPECT_EQ(users.processes.wait(0, 30s), kHeardNothing);
}

}  // namespace
}  // namespace tutti::tests
