// The UCX transport beside a plain socket. Usage: ucx_bench [repetitions]; UCX's own variables
// choose another network (UCX_TLS, UCX_NET_DEVICES).

#include <cstdlib>

#include "bench/transports/socket_bench.h"
#include "transports/ucx/endpoint.h"

int main(int argc, char** argv) {
  using namespace tutti;
  return bench::besideASocket(argc, argv, []() -> bench::MakeEndpoint {
    const bool chosen = std::getenv("UCX_TLS") || std::getenv("UCX_NET_DEVICES");
    const auto worker = transports::ucx::makeWorker(
        chosen ? transports::ucx::WorkerOptions{}
               : transports::ucx::WorkerOptions{.devices = "lo", .tls = "tcp,self"});
    return [worker](int rank, const transports::RingLayout& layout) {
      return transports::ucx::makeUcxEndpoint(worker, rank, 2, layout);
    };
  });
}
