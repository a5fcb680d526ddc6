#include "bench/transports/socket_bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/transports/ring_bench.h"
#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::bench {
namespace {

using base::FileDescriptor;
using transports::Endpoint;
using transports::EndpointAddress;
using transports::RingLayout;

constexpr size_t kLargest = size_t{16} << 20;
constexpr std::array<size_t, 6> kSizes{4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, kLargest};
constexpr std::array<RingLayout, 3> kLayouts{
    RingLayout{2, 8, 64 << 10}, {2, 8, 256 << 10}, {2, 4, 1 << 20}};

// ---- the plain socket

void sendAll(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    const auto sent = static_cast<size_t>(TUTTI_SYSCALL(::send(socket, data, bytes, MSG_NOSIGNAL)));
    data += sent;
    bytes -= sent;
  }
}

void receiveAll(int socket, char* data, size_t bytes) {
  base::Backoff backoff(true);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, data, bytes, MSG_DONTWAIT);
    if (got == 0) base::fail(ErrorCode::PeerLost, "the other process is gone");
    if (got < 0) {
      if (errno != EAGAIN) base::failSyscall("recv", errno);
      backoff.idle();
      continue;
    }
    data += got;
    bytes -= static_cast<size_t>(got);
  }
}

FileDescriptor connectOverTcp(int rank, int socket) {
  FileDescriptor tcp(TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (rank == 0) {
    TUTTI_SYSCALL(::bind(tcp.get(), any, length));
    TUTTI_SYSCALL(::listen(tcp.get(), 1));
    TUTTI_SYSCALL(::getsockname(tcp.get(), any, &length));
    TUTTI_SYSCALL(::send(socket, &address, sizeof address, MSG_NOSIGNAL));
    tcp = FileDescriptor(TUTTI_SYSCALL(::accept4(tcp.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  } else {
    TUTTI_SYSCALL(::recv(socket, &address, sizeof address, 0));
    TUTTI_SYSCALL(::connect(tcp.get(), any, length));
  }
  const int on = 1;
  TUTTI_SYSCALL(::setsockopt(tcp.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  return tcp;
}

double socketPingPong(int rank, int tcp) {
  char message[8] = {};
  const double start = nowNs();
  for (int i = 0; i < kPingPongs; ++i) {
    if (rank == 0) sendAll(tcp, message, sizeof message);
    receiveAll(tcp, message, sizeof message);
    if (rank == 1) sendAll(tcp, message, sizeof message);
  }
  return (nowNs() - start) / kPingPongs / 2;
}

double socketStream(int rank, int tcp, std::vector<char>& buffer, size_t bytes) {
  char done = 0;
  const double start = nowNs();
  if (rank == 0) {
    sendAll(tcp, buffer.data(), bytes);
    receiveAll(tcp, &done, 1);
  } else {
    receiveAll(tcp, buffer.data(), bytes);
    sendAll(tcp, &done, 1);
  }
  return nowNs() - start;
}

// ---- both

void swapAddresses(Endpoint& endpoint, int rank, int socket) {
  const EndpointAddress mine = endpoint.address(1 - rank);
  TUTTI_SYSCALL(::send(socket, mine.blob.data(), mine.blob.size(), MSG_NOSIGNAL));
  EndpointAddress theirs;
  theirs.blob.resize(65536);
  theirs.blob.resize(static_cast<size_t>(
      TUTTI_SYSCALL(::recv(socket, theirs.blob.data(), theirs.blob.size(), 0))));
  endpoint.connect(1 - rank, std::move(theirs));
}

struct Samples {
  Sample ringLatency, socketLatency;
  std::array<std::array<Sample, kLayouts.size() + 1>, kSizes.size()> streams;
};

void print(Samples& samples, int repetitions) {
  std::printf("two processes, %d repetitions, interleaved; medians\n", repetitions);
  std::printf("8-byte ping-pong, half a round trip: %.2f us; plain socket %.2f us\n",
              samples.ringLatency.at(0.5) / 1e3, samples.socketLatency.at(0.5) / 1e3);
  std::printf("%10s %16s", "bytes", "socket, GB/s");
  for (const RingLayout& l : kLayouts)
    std::printf("   %4zu KiB x %u: GB/s  ratio", l.slotBytes >> 10, l.slotCount);
  std::printf("\n");
  for (size_t s = 0; s < kSizes.size(); ++s) {
    const double reference = samples.streams[s][kLayouts.size()].at(0.5);
    std::printf("%10zu %16.2f", kSizes[s], static_cast<double>(kSizes[s]) / reference);
    for (size_t l = 0; l < kLayouts.size(); ++l) {
      const double ns = samples.streams[s][l].at(0.5);
      std::printf("   %18.2f %6.2f", static_cast<double>(kSizes[s]) / ns, reference / ns);
    }
    std::printf("\n");
  }
}

void run(const MakeEndpoint& make, int rank, int socket, int repetitions) {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const RingLayout& layout : kLayouts) {
    endpoints.push_back(make(rank, layout));
    swapAddresses(*endpoints.back(), rank, socket);
  }
  const FileDescriptor tcp = connectOverTcp(rank, socket);
  std::vector<char> buffer(kLargest, 1);
  Samples samples;
  for (int i = 0; i < repetitions; ++i) {
    samples.ringLatency.values.push_back(pingPong(*endpoints[0], rank));
    samples.socketLatency.values.push_back(socketPingPong(rank, tcp.get()));
    for (size_t s = 0; s < kSizes.size(); ++s)
      for (size_t v = 0; v <= kLayouts.size(); ++v)
        samples.streams[s][v].values.push_back(
            v < kLayouts.size() ? stream(*endpoints[v], rank, buffer, kSizes[s])
                                : socketStream(rank, tcp.get(), buffer, kSizes[s]));
  }
  if (rank == 0) print(samples, repetitions);
}

}  // namespace

int besideASocket(int argc, char** argv, const std::function<MakeEndpoint()>& begin) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  return inTwoProcesses([&](int rank, int socket) { run(begin(), rank, socket, repetitions); });
}

}  // namespace tutti::bench
