// The opponent between hosts: the same rank over Gloo's TCP transport. TUTTI_RANK and
// TUTTI_WORLD_SIZE say who it is; ranks meet in a folder beside the benchmark's.

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "worker.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

void* allocate(void*, size_t bytes) {
  return std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}
void release(void*, void* memory) { std::free(memory); }
void allReduce(void* context, const float* send, float* recv, size_t count) {
  gloo::AllreduceOptions options(*static_cast<Context*>(context));
  options.setInput(const_cast<float*>(send), count);
  options.setOutput(recv, count);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}
void barrier(void* context) {
  gloo::BarrierOptions options(*static_cast<Context*>(context));
  gloo::barrier(options);
}

int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const int rank = number("TUTTI_RANK"), size = number("TUTTI_WORLD_SIZE");
    const std::string meeting = std::string(argv[1]) + "/gloo";
    std::filesystem::create_directories(meeting);
    gloo::rendezvous::FileStore store(meeting);
    gloo::transport::tcp::attr attributes;
    attributes.iface = "eth0";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    const worker_library library{&context, rank, size, allocate, release, allReduce, barrier};
    return worker_main(&library, argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
