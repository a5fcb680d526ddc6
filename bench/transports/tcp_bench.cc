// The transport tcp beside a plain socket. Usage: tcp_bench [repetitions]; TUTTI_ENCRYPTION=on and
// TUTTI_TCP_STREAMS are heeded.

#include "bench/transports/socket_bench.h"
#include "src/base/env.h"
#include "transports/tcp/endpoint.h"

int main(int argc, char** argv) {
  using namespace tutti;
  return bench::besideASocket(argc, argv, []() -> bench::MakeEndpoint {
    const auto hub = transports::tcp::makeHub({.place = wire::resolve("127.0.0.1", 0)});
    const transports::tcp::TcpOptions options{
        .streams = static_cast<uint32_t>(base::env().tcpStreams),
        .encrypts = base::env().encryption};
    return [hub, options](int rank, const transports::RingLayout& layout) {
      return transports::tcp::makeTcpEndpoint(hub, rank, 2, layout, options);
    };
  });
}
