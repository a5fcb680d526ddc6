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
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/transports/ring_bench.h"
#include "src/base/check.h"
#include "transports/shm/endpoint.h"

namespace tutti::bench {
namespace {

using transports::Endpoint;
using transports::EndpointAddress;
using transports::RingLayout;

constexpr size_t kLargest = size_t{64} << 20;
constexpr std::array<size_t, 6> kSizes{64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, kLargest};
constexpr std::array<RingLayout, 4> kLayouts{
    RingLayout{2, 4, 256 << 10}, {2, 4, 128 << 10}, {2, 4, 64 << 10}, {2, 2, 32 << 10}};

double copy(Endpoint& endpoint, int rank, std::vector<char>& from, std::vector<char>& to,
            size_t bytes) {
  barrier(endpoint, rank);
  const double start = nowNs();
  std::memcpy(to.data(), from.data(), bytes);
  barrier(endpoint, rank);
  return nowNs() - start;
}

// The peer's descriptor is opened through /proc: both processes are ours.
void swapAddresses(Endpoint& endpoint, int rank, int socket) {
  const EndpointAddress mine = endpoint.address(1 - rank);
  std::array<int32_t, 2> where{::getpid(), mine.descriptors[0].get()};
  std::vector<std::byte> out(sizeof where + mine.blob.size()), in(4096);
  std::memcpy(out.data(), where.data(), sizeof where);
  std::copy(mine.blob.begin(), mine.blob.end(), out.begin() + sizeof where);
  TUTTI_SYSCALL(::send(socket, out.data(), out.size(), MSG_NOSIGNAL));
  in.resize(static_cast<size_t>(TUTTI_SYSCALL(::recv(socket, in.data(), in.size(), 0))));
  TUTTI_REQUIRE(in.size() > sizeof where, "the other process is gone");
  std::memcpy(where.data(), in.data(), sizeof where);
  const std::string path = base::message("/proc/", where[0], "/fd/", where[1]);
  EndpointAddress theirs{{in.begin() + sizeof where, in.end()}, {}};
  theirs.descriptors.emplace_back(TUTTI_SYSCALL(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
  endpoint.connect(1 - rank, std::move(theirs));
  // `mine` is open until both have opened it.
  char byte = 0;
  TUTTI_SYSCALL(::send(socket, &byte, 1, MSG_NOSIGNAL));
  TUTTI_SYSCALL(::recv(socket, &byte, 1, 0));
}

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

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 31;
  return tutti::bench::inTwoProcesses(
      [&](int rank, int socket) { tutti::bench::run(rank, socket, repetitions); });
}
