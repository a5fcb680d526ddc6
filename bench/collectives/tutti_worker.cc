// Our rank: memory from allocate, or ordinary memory.

#include <tutti/tutti.h>
#include <tutti/version.h>

#include <cstdio>
#include <exception>
#include <map>

#include "worker.h"

namespace {

/// A program has its buffers in one kind of memory; what calls on the other kind have found would
/// count on the same communicator.
struct RankState {
  tutti::Communicator communicator;
  tutti::Communicator ofOrdinary = communicator.split(0, communicator.rank()).value();
  std::map<void*, tutti::Memory> memory = {};
};

void* allocate(void* context, size_t bytes) {
  auto& state = *static_cast<RankState*>(context);
  tutti::Memory memory = state.communicator.allocate(bytes);
  void* data = memory.data();
  state.memory.emplace(data, std::move(memory));
  return data;
}
void release(void* context, void* memory) {
  static_cast<RankState*>(context)->memory.erase(memory);
}

void passOn(tutti::Communicator& c, const worker_operation& call) {
  const int size = c.size();
  tutti::Group group;
  c.send({.send = call.send, .count = call.count, .peer = (c.rank() + 1) % size});
  c.receive({.recv = call.recv, .count = call.count, .peer = (c.rank() + size - 1) % size});
  group.end();
}

void run(void* context, const worker_operation* call) {
  RankState& state = *static_cast<RankState*>(context);
  tutti::Communicator& c = call->ordinary ? state.ofOrdinary : state.communicator;
  const float* send = call->send;
  float* recv = call->recv;
  const size_t n = call->count;
  switch (call->collective) {
    case WORKER_ALL_REDUCE: return c.allReduce({.send = send, .recv = recv, .count = n});
    case WORKER_ALL_GATHER: return c.allGather({.send = send, .recv = recv, .count = n});
    case WORKER_REDUCE_SCATTER: return c.reduceScatter({.send = send, .recv = recv, .count = n});
    case WORKER_BROADCAST:  // in place at the root, as MPI's is
      if (c.rank() == WORKER_ROOT) recv = const_cast<float*>(send);
      return c.broadcast({.send = send, .recv = recv, .count = n, .root = WORKER_ROOT});
    case WORKER_REDUCE:
      return c.reduce({.send = send, .recv = recv, .count = n, .root = WORKER_ROOT});
    case WORKER_ALL_TO_ALL: return c.allToAll({.send = send, .recv = recv, .count = n});
    case WORKER_SEND_RECV: return passOn(c, *call);
    default: return c.barrier();
  }
}

double predict(void* context, const worker_operation* call) {
  tutti::Group group;
  run(context, call);
  return group.predict().count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    RankState state{tutti::Communicator::create()};
    const worker_library library{&state,
                                 state.communicator.rank(),
                                 state.communicator.size(),
                                 "Tutti " TUTTI_VERSION,
                                 allocate,
                                 release,
                                 run,
                                 predict};
    return worker_main(&library, argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
