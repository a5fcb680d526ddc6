// The shared-memory transport by itself, between two processes, each on a core of its own when
// there are two:
//
//   8-byte ping-pong    half of a round trip, nanoseconds
//   stream              S bytes from the sender's buffer through the slots into the receiver's,
//                       against both processes copying S bytes within their own memory at the same
//                       time. Both make two copies of S bytes, so 1.0 is the best that a transport
//                       which copies in and out can be.
//
// Variants are interleaved; figures are medians, with quartiles. Usage: shm_bench [repetitions]

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "transports/shm/endpoint.h"

namespace tutti::bench {
namespace {

using transports::Address;
using transports::Endpoint;
using transports::RingLayout;

constexpr size_t kLargest = size_t{64} << 20;
constexpr std::array<size_t, 6> kSizes{64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, kLargest};
constexpr std::array<RingLayout, 4> kLayouts{
    RingLayout{2, 4, 256 << 10}, {2, 4, 128 << 10}, {2, 4, 64 << 10}, {2, 2, 32 << 10}};
constexpr int kPingPongs = 20'000;
constexpr int kBarrierChannel = 1;

double nowNs() { return static_cast<double>(base::SteadyClock().nowNs()); }

template <class Condition>
void await(const Condition& holds) {
  base::Backoff backoff(true);
  const auto deadline = base::Deadline::after(std::chrono::seconds(60));
  for (uint64_t polls = 1; !holds(); ++polls) {
    backoff.idle();
    if (polls % 4096 == 0 && deadline.passed())
      base::fail(ErrorCode::Timeout, "the other process did not answer within 60 s");
  }
}

void sendOne(Endpoint& endpoint, int peer, int channel, const void* data, uint32_t bytes) {
  auto& ring = endpoint.sendRing(peer, channel);
  await([&] { return ring.ready(); });
  std::memcpy(ring.payload(bytes), data, bytes);
  ring.publish(0, 0, bytes);
}

uint32_t receiveOne(Endpoint& endpoint, int peer, int channel, void* data) {
  auto& ring = endpoint.receiveRing(peer, channel);
  await([&] { return ring.ready(); });
  const uint32_t bytes = ring.slot()->bytes;
  std::memcpy(data, ring.payload(), bytes);
  ring.release();
  return bytes;
}

void barrier(Endpoint& endpoint, int rank) {
  char byte = 0;
  sendOne(endpoint, 1 - rank, kBarrierChannel, &byte, 1);
  receiveOne(endpoint, 1 - rank, kBarrierChannel, &byte);
}

// Half a round trip, nanoseconds; at rank 0.
double pingPong(Endpoint& endpoint, int rank) {
  uint64_t value = 1;
  barrier(endpoint, rank);
  const double start = nowNs();
  for (int i = 0; i < kPingPongs; ++i) {
    if (rank == 0) sendOne(endpoint, 1, 0, &value, sizeof value);
    receiveOne(endpoint, 1 - rank, 0, &value);
    if (rank == 1) sendOne(endpoint, 0, 0, &value, sizeof value);
  }
  return (nowNs() - start) / kPingPongs / 2;
}

// From rank 0's buffer into rank 1's, which says when it has all.
double stream(Endpoint& endpoint, int rank, std::vector<char>& buffer, size_t bytes) {
  barrier(endpoint, rank);
  const double start = nowNs();
  for (size_t at = 0; at < bytes;) {
    const auto piece = static_cast<uint32_t>(std::min(endpoint.layout().slotBytes, bytes - at));
    if (rank == 0)
      sendOne(endpoint, 1, 0, buffer.data() + at, piece);
    else
      receiveOne(endpoint, 0, 0, buffer.data() + at);
    at += piece;
  }
  barrier(endpoint, rank);
  return nowNs() - start;
}

double copy(Endpoint& endpoint, int rank, std::vector<char>& from, std::vector<char>& to,
            size_t bytes) {
  barrier(endpoint, rank);
  const double start = nowNs();
  std::memcpy(to.data(), from.data(), bytes);
  barrier(endpoint, rank);
  return nowNs() - start;
}

// ---- two processes

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

// The peer's descriptor is opened through /proc: both processes are ours.
void swapAddresses(Endpoint& endpoint, int rank, int socket) {
  const Address mine = endpoint.address(1 - rank);
  std::array<int32_t, 2> where{::getpid(), mine.descriptors[0].get()};
  std::vector<std::byte> out(sizeof where + mine.blob.size()), in(4096);
  std::memcpy(out.data(), where.data(), sizeof where);
  std::copy(mine.blob.begin(), mine.blob.end(), out.begin() + sizeof where);
  TUTTI_SYSCALL(::send(socket, out.data(), out.size(), MSG_NOSIGNAL));
  in.resize(static_cast<size_t>(TUTTI_SYSCALL(::recv(socket, in.data(), in.size(), 0))));
  TUTTI_REQUIRE(in.size() > sizeof where, "the other process is gone");
  std::memcpy(where.data(), in.data(), sizeof where);
  const std::string path = base::message("/proc/", where[0], "/fd/", where[1]);
  Address theirs{{in.begin() + sizeof where, in.end()}, {}};
  theirs.descriptors.emplace_back(TUTTI_SYSCALL(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
  endpoint.connect(1 - rank, std::move(theirs));
  // `mine` is open until both have opened it.
  char byte = 0;
  TUTTI_SYSCALL(::send(socket, &byte, 1, MSG_NOSIGNAL));
  TUTTI_SYSCALL(::recv(socket, &byte, 1, 0));
}

struct Sample {
  std::vector<double> values;
  double at(double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  }
};

void print(const std::array<std::array<Sample, kLayouts.size() + 1>, kSizes.size()>& samples) {
  std::printf("%10s %22s", "bytes", "copy by two, us");
  for (const RingLayout& l : kLayouts)
    std::printf("   %3zu KiB x %u: us  ratio   GB/s", l.slotBytes >> 10, l.slotCount);
  std::printf("\n");
  for (size_t s = 0; s < kSizes.size(); ++s) {
    auto row = samples[s];
    const double reference = row[kLayouts.size()].at(0.5);
    std::printf("%10zu %8.1f [%.1f, %.1f]", kSizes[s], reference / 1e3,
                row[kLayouts.size()].at(0.25) / 1e3, row[kLayouts.size()].at(0.75) / 1e3);
    for (size_t l = 0; l < kLayouts.size(); ++l) {
      const double ns = row[l].at(0.5);
      std::printf("   %12.1f %6.2f %6.2f", ns / 1e3, ns / reference,
                  static_cast<double>(kSizes[s]) / ns);
    }
    std::printf("\n");
  }
}

void run(int rank, int socket, int repetitions) {
  pin(rank);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const RingLayout& layout : kLayouts) {
    endpoints.push_back(transports::shm::makeShmEndpoint(rank, 2, layout));
    swapAddresses(*endpoints.back(), rank, socket);
  }
  std::vector<char> from(kLargest, 1), to(kLargest, 2);
  Sample latency;
  std::array<std::array<Sample, kLayouts.size() + 1>, kSizes.size()> samples;
  for (int i = 0; i < repetitions; ++i) {
    latency.values.push_back(pingPong(*endpoints[0], rank));
    for (size_t s = 0; s < kSizes.size(); ++s) {
      // Another order each time: what ran before decides what lies in the caches.
      for (size_t v = 0; v <= kLayouts.size(); ++v) {
        const size_t l = (v + static_cast<size_t>(i)) % (kLayouts.size() + 1);
        samples[s][l].values.push_back(
            l < kLayouts.size() ? stream(*endpoints[l], rank, rank == 0 ? from : to, kSizes[s])
                                : copy(*endpoints[0], rank, from, to, kSizes[s]));
      }
    }
  }
  if (rank != 0) return;
  std::printf("two processes, %d repetitions, interleaved; medians [quartiles]\n", repetitions);
  std::printf("8-byte ping-pong, half a round trip: %.0f ns [%.0f, %.0f]\n", latency.at(0.5),
              latency.at(0.25), latency.at(0.75));
  print(samples);
}

int guarded(int rank, int socket, int repetitions) {
  try {
    run(rank, socket, repetitions);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    return 1;
  }
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 31;
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  ::close(sockets[child == 0 ? 0 : 1]);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(tutti::bench::guarded(1, sockets[1], repetitions));
  }
  const int ours = tutti::bench::guarded(0, sockets[0], repetitions);
  int status = 0;
  ::waitpid(child, &status, 0);
  return ours != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
