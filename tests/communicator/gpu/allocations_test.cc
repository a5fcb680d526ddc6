// Once communicators on emulated GPUs are made, calls of all kinds make and free no memory, streams
// or events: on a GPU that may wait for kernels which wait for another rank.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/communicator/gpu/ranks.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/support/local_ranks.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

using emulation::AllocatingCalls;

struct Way {
  const char* name;
  bool byCopies;
  int devices;  // of a rank each, or of them all
};

class GpuAllocations : public CudaTest, public testing::WithParamInterface<Way> {
 protected:
  static std::vector<Communicator> make(int size, CommunicatorOptions options = {}) {
    options.gpuCopies = GetParam().byCopies;
    // ThreadSanitizer knows 8128 threads at a time, of which a block has 512.
    if (kThreadSanitized) options.gpuBlocks = 2;
    return makeRanks(size, GetParam().devices, options);
  }
};

constexpr size_t kWindowBytes = 2 << 20;

std::vector<Windows> windowsOf(std::vector<Communicator>& ranks) {
  std::vector<Windows> windows;
  for (Communicator& c : ranks) windows.emplace_back(c, kWindowBytes);
  return windows;
}

void checkKinds(Communicator& c, Windows& windows) {
  for (const size_t count : {1, 30'011}) {
    const Case sums{.count = count, .root = 1, .windows = &windows};
    checkAll(c, sums);
    for (const auto& [type, op] :
         {std::pair(DataType::BFloat16, ReduceOp::PreMulSum),
          std::pair(DataType::Int8, ReduceOp::Max), std::pair(DataType::Float64, ReduceOp::Avg)}) {
      Case other = sums;
      other.type = type;
      other.op = op;
      other.inPlace = true;
      checkAll(c, other);
    }
  }
}

// By each algorithm where it exists: "recursive" has scratch memory, "double_tree" many lanes.
TEST_P(GpuAllocations, EndBeforeCollectives) {
  for (const char* const algorithm : {"", "recursive", "double_tree"})
    for (const int size : {2, 4}) {
      if (size == 2 && *algorithm != 0) continue;
      // What isOrderedByItsDataAlone() of the executor's tests is about.
      if (kThreadSanitized && std::string_view(algorithm) == "double_tree") continue;
      SCOPED_TRACE(testing::Message() << size << " ranks " << algorithm);
      auto ranks = make(size, {.algorithm = algorithm});
      auto windows = windowsOf(ranks);
      const AllocatingCalls calls;
      runRanks(ranks, [&](Communicator& c) { checkKinds(c, windows[c.rank()]); });
      EXPECT_EQ(calls.describe(), "");
    }
}

/// With every rank, itself too; by sends and receives, and by prepared calls.
void exchange(Communicator& c, Windows& windows, StreamRef stream) {
  constexpr size_t kMost = 50'000;
  const auto size = static_cast<size_t>(c.size()), me = static_cast<size_t>(c.rank());
  const auto bytes = [](size_t from, size_t to) { return kMost * ((from + 2 * to) % 5); };
  std::vector<size_t> sends, receives;
  for (size_t peer = 0; peer < size; ++peer) {
    sends.push_back(bytes(me, peer));
    receives.push_back(bytes(peer, me));
  }
  const AllToAllVArgs all{.send = windows.in.data(),
                          .sendCounts = sends,
                          .recv = windows.out.data(),
                          .recvCounts = receives,
                          .type = DataType::Int8};
  c.allToAllV(all, stream);
  PreparedCall prepared = c.prepare(all);
  for (int i = 0; i < 2; ++i) prepared.start(stream);
  const int next = static_cast<int>((me + 1) % size),
            last = static_cast<int>((me + size - 1) % size);
  Group group;
  c.send({windows.in.data(), kMost, DataType::Int8, next}, stream);
  c.receive({windows.out.data(), kMost, DataType::Int8, last}, stream);
}

/// Blocks that differ in size.
void callUneven(Communicator& c, Windows& windows, StreamRef stream) {
  std::vector<size_t> counts(static_cast<size_t>(c.size()));
  std::iota(counts.begin(), counts.end(), 20'000);
  c.allGatherV({.send = windows.in.data(),
                .recv = windows.out.data(),
                .counts = counts,
                .type = DataType::Float32},
               stream);
  c.reduceScatterV({.send = windows.in.data(),
                    .recv = windows.out.data(),
                    .counts = counts,
                    .type = DataType::Float32},
                   stream);
}

TEST_P(GpuAllocations, EndBeforeExchanges) {
  for (const bool haveStreams : {false, true}) {
    Setting s(make(4), 1);
    auto windows = windowsOf(s.ranks);
    const AllocatingCalls calls;
    runRanks(s.ranks, [&](Communicator& c) {
      const StreamRef stream = haveStreams ? StreamRef(s.streams[c.rank()]) : StreamRef();
      exchange(c, windows[c.rank()], stream);
      callUneven(c, windows[c.rank()], stream);
      if (haveStreams) s.streams[c.rank()].synchronize();
    });
    EXPECT_EQ(calls.describe(), "");
  }
}

// One thread calls for all ranks of two communicators.
TEST_P(GpuAllocations, EndBeforeGroups) {
  constexpr size_t kCount = 70'000;
  Setting first(make(3), kCount), second(make(3), kCount);
  const AllocatingCalls calls;
  for (const bool haveStreams : {false, true}) {
    Group group;
    for (Setting* s : {&first, &second})
      for (int r = 0; r < 3; ++r) {
        const StreamRef stream = haveStreams ? StreamRef(s->streams[r]) : StreamRef();
        s->ranks[r].allReduce(s->args(r, kCount), stream);
        s->ranks[r].broadcast({s->values[r].data(), s->values[r].data(), kCount}, stream);
      }
    group.end();
    for (Setting* s : {&first, &second})
      for (Stream& stream : s->streams) stream.synchronize();
  }
  EXPECT_EQ(calls.describe(), "");
}

TEST_P(GpuAllocations, EndBeforeGraphs) {
  constexpr size_t kCount = 70'000;
  Setting s(make(2), kCount);
  const AllocatingCalls calls;
  checkReplays(s, kCount, 3, 4);
  EXPECT_EQ(calls.describe(), "");
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuAllocations,
                         testing::Values(Way{"ByKernels", false, 4}, Way{"ByCopies", true, 4},
                                         Way{"ByKernelsOfOneGpu", false, 1},
                                         Way{"ByCopiesOfOneGpu", true, 1}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace tutti::tests
