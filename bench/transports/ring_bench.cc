#include "bench/transports/ring_bench.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace tutti::bench {
namespace {

using transports::Endpoint;

constexpr int kBarrierChannel = 1;

template <class Condition>
void await(Endpoint& endpoint, const Condition& holds) {
  base::Backoff backoff(true);
  const auto deadline = base::Deadline::after(std::chrono::seconds(60));
  for (uint64_t polls = 1; !holds(); ++polls) {
    if (!endpoint.progress()) backoff.idle();
    if (polls % 4096 == 0 && deadline.passed())
      base::fail(ErrorCode::Timeout, "the other process did not answer within 60 s");
  }
}

void sendOne(Endpoint& endpoint, int peer, int channel, const void* data, uint32_t bytes) {
  auto& ring = endpoint.sendRing(peer, channel);
  await(endpoint, [&] { return ring.ready(); });
  std::memcpy(ring.payload(bytes), data, bytes);
  ring.publish(0, 0, bytes);
}

uint32_t receiveOne(Endpoint& endpoint, int peer, int channel, void* data, size_t room) {
  auto& ring = endpoint.receiveRing(peer, channel);
  await(endpoint, [&] { return ring.ready(); });
  const uint32_t bytes = ring.slot()->bytes;
  std::memcpy(data, ring.payload(), std::min<size_t>(bytes, room));
  ring.release();
  return bytes;
}

void pin(int rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) < 0 || CPU_COUNT(&allowed) < 2) return;
  int seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != rank) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

int guarded(const std::function<void(int, int)>& body, int rank, int socket) {
  try {
    pin(rank);
    body(rank, socket);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    return 1;
  }
}

}  // namespace

double nowNs() { return static_cast<double>(base::SteadyClock().nowNs()); }

void barrier(Endpoint& endpoint, int rank) {
  char byte = 0;
  sendOne(endpoint, 1 - rank, kBarrierChannel, &byte, 1);
  receiveOne(endpoint, 1 - rank, kBarrierChannel, &byte, sizeof byte);
  endpoint.flush();
}

double pingPong(Endpoint& endpoint, int rank) {
  uint64_t value = 1;
  barrier(endpoint, rank);
  const double start = nowNs();
  for (int i = 0; i < kPingPongs; ++i) {
    if (rank == 0) sendOne(endpoint, 1, 0, &value, sizeof value);
    receiveOne(endpoint, 1 - rank, 0, &value, sizeof value);
    if (rank == 1) sendOne(endpoint, 0, 0, &value, sizeof value);
  }
  const double halfTrip = (nowNs() - start) / kPingPongs / 2;
  endpoint.flush();
  return halfTrip;
}

double stream(Endpoint& endpoint, int rank, std::vector<char>& buffer, size_t bytes) {
  barrier(endpoint, rank);
  const double start = nowNs();
  for (size_t at = 0; at < bytes;) {
    const auto piece = static_cast<uint32_t>(std::min(endpoint.layout().slotBytes, bytes - at));
    if (rank == 0)
      sendOne(endpoint, 1, 0, buffer.data() + at, piece);
    else
      receiveOne(endpoint, 0, 0, buffer.data() + at, buffer.size() - at);
    at += piece;
  }
  barrier(endpoint, rank);
  return nowNs() - start;
}

double Sample::at(double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

int inTwoProcesses(const std::function<void(int rank, int socket)>& body) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  ::close(sockets[child == 0 ? 0 : 1]);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(guarded(body, 1, sockets[1]));
  }
  const int ours = guarded(body, 0, sockets[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return ours != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

}  // namespace tutti::bench
