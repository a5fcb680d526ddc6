// A peer: the same rank over Gloo's TCP transport. TUTTI_RANK and TUTTI_WORLD_SIZE say who it is;
// ranks meet in a folder beside the benchmark's. It has no reduce_scatter that takes any buffer.
//
//   gloo_worker INTERFACE DIRECTORY

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "worker.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

constexpr auto kSum =
    static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>);
constexpr uint64_t kSlot = 1;

template <class Options>
Options withBuffers(const Context& context, const worker_operation& c, size_t send, size_t recv) {
  Options options(context);
  options.setInput(const_cast<float*>(c.send), send);
  options.setOutput(c.recv, recv);
  return options;
}

void broadcast(const Context& context, const worker_operation& c) {
  gloo::BroadcastOptions options(context);
  options.setOutput(context->rank == WORKER_ROOT ? const_cast<float*>(c.send) : c.recv, c.count);
  options.setRoot(WORKER_ROOT);
  gloo::broadcast(options);
}

void passOn(const Context& context, const worker_operation& c) {
  const size_t bytes = c.count * sizeof(float);
  const auto out = context->createUnboundBuffer(const_cast<float*>(c.send), bytes);
  const auto in = context->createUnboundBuffer(c.recv, bytes);
  out->send((context->rank + 1) % context->size, kSlot);
  in->recv((context->rank + context->size - 1) % context->size, kSlot);
  out->waitSend();
  in->waitRecv();
}

void run(void* opaque, const worker_operation* call) {
  const Context& context = *static_cast<Context*>(opaque);
  const worker_operation& c = *call;
  const size_t n = c.count, all = n * static_cast<size_t>(context->size);
  switch (c.collective) {
    case WORKER_ALL_REDUCE: {
      auto options = withBuffers<gloo::AllreduceOptions>(context, c, n, n);
      options.setReduceFunction(kSum);
      return gloo::allreduce(options);
    }
    case WORKER_ALL_GATHER: {
      auto options = withBuffers<gloo::AllgatherOptions>(context, c, n, all);
      return gloo::allgather(options);
    }
    case WORKER_BROADCAST: return broadcast(context, c);
    case WORKER_REDUCE: {
      auto options = withBuffers<gloo::ReduceOptions>(context, c, n, n);
      options.setReduceFunction(kSum);
      options.setRoot(WORKER_ROOT);
      return gloo::reduce(options);
    }
    case WORKER_ALL_TO_ALL: {
      auto options = withBuffers<gloo::AlltoallOptions>(context, c, all, all);
      return gloo::alltoall(options);
    }
    case WORKER_SEND_RECV: return passOn(context, c);
    case WORKER_BARRIER: {
      gloo::BarrierOptions options(context);
      return gloo::barrier(options);
    }
    default: throw std::runtime_error("gloo_worker: Gloo has no such collective");
  }
}

std::string version() {
  const auto part = [](int number) { return std::to_string(number); };
  return "Gloo " + part(GLOO_VERSION_MAJOR) + "." + part(GLOO_VERSION_MINOR) + "." +
         part(GLOO_VERSION_PATCH);
}

int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const int rank = number("TUTTI_RANK"), size = number("TUTTI_WORLD_SIZE");
    const std::string meeting = std::string(argv[2]) + "/gloo";
    std::filesystem::create_directories(meeting);
    gloo::rendezvous::FileStore store(meeting);
    gloo::transport::tcp::attr attributes;
    attributes.iface = argv[1];
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    const std::string name = version();
    const worker_library library{&context, rank, size, name.c_str(), nullptr, nullptr, run};
    return worker_main(&library, argv[2]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
