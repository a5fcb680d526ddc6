// Our rank: memory from allocate.

#include <tutti/tutti.h>

#include <cstdio>
#include <exception>
#include <map>

#include "worker.h"

namespace {

struct Job {
  tutti::Communicator communicator;
  std::map<void*, tutti::Memory> memory;
};

void* allocate(void* context, size_t bytes) {
  auto& job = *static_cast<Job*>(context);
  tutti::Memory memory = job.communicator.allocate(bytes);
  void* data = memory.data();
  job.memory.emplace(data, std::move(memory));
  return data;
}
void release(void* context, void* memory) { static_cast<Job*>(context)->memory.erase(memory); }
void allReduce(void* context, const float* send, float* recv, size_t count) {
  static_cast<Job*>(context)->communicator.allReduce({.send = send, .recv = recv, .count = count});
}
void barrier(void* context) { static_cast<Job*>(context)->communicator.barrier(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    Job job{tutti::Communicator::create(), {}};
    const worker_library library{
        &job,   job.communicator.rank(), job.communicator.size(), allocate, release, allReduce,
        barrier};
    return worker_main(&library, argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
