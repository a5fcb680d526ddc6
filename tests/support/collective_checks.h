#pragma once

// The collectives, each called on this rank and its result compared with what is known exactly;
// canaries lie around the buffers of those with one number and no counts. Collective: every rank
// calls the same with equal cases, `inPlace` of AllToAll aside.

#include <tutti/tutti.h>

namespace tutti::tests {

/// Memory that the buffers of a rank's cases lie in, one after the other: of
/// Communicator::allocate, or of the rank's GPU, which is not freed while other ranks' kernels may
/// wait for this rank's next.
struct Windows {
  Windows(Communicator& c, size_t bytes);
  Memory in, out;
};

struct Case {
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  size_t count = 1000;
  int root = 0;
  bool inPlace = false;
  size_t misalign = 0;
  Windows* windows = nullptr;
  Memory* in() const { return windows ? &windows->in : nullptr; }
  Memory* out() const { return windows ? &windows->out : nullptr; }
};

void checkAllReduce(Communicator& c, const Case& t);
void checkReduce(Communicator& c, const Case& t);
void checkBroadcast(Communicator& c, const Case& t);
void checkAllGather(Communicator& c, const Case& t);
void checkReduceScatter(Communicator& c, const Case& t);
void checkGather(Communicator& c, const Case& t);
void checkScatter(Communicator& c, const Case& t);
void checkAllToAll(Communicator& c, const Case& t);
void checkScan(Communicator& c, const Case& t);
/// All of those that the reduction allows, and a barrier.
void checkAll(Communicator& c, const Case& t);

/// AllToAllV, AllGatherV and ReduceScatterV with blocks of different sizes, a ring of grouped sends
/// and receives, reductions of the caller's own, and prepared calls.
void checkExchanges(Communicator& c);

}  // namespace tutti::tests
