// Groups of calls of two communicators of the same ranks on GPUs, by kernels and by copies, where
// the two share each rank's stream and where each has its own. Ranks need not name the two in the
// same order.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "tests/communicator/gpu/ranks.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCount = 5000;
constexpr int kMostRanks = 4;

/// No two ranks and no two places have the same, and sums of all ranks are exact.
float element(int rank, size_t i) {
  return static_cast<float>(kMostRanks * i) + static_cast<float>(rank);
}

std::vector<float> elementsOf(int rank) {
  std::vector<float> all(kCount);
  for (size_t i = 0; i < kCount; ++i) all[i] = element(rank, i);
  return all;
}

/// So many ranks on so many devices, twice: `second` by a second id, or a split of `first` with the
/// ranks the other way round. Both have the same order here, that of the ranks of `first`.
class TwoCommunicators {
 public:
  TwoCommunicators(int ranks, int devices, bool byCopies, bool sharesStreams, bool isSplit)
      : first(makeRanks(ranks, devices, {.timeout = 30s, .gpuCopies = byCopies})) {
    if (isSplit)
      second = reversed();
    else
      second = makeRanks(ranks, devices, {.timeout = 30s, .gpuCopies = byCopies});
    for (int r = 0; r < ranks; ++r) {
      const Device device = first[r].device();
      streams.emplace_back(device);
      others.emplace_back(device);
      own_.push_back(allocateOn(device, 4 * kCount));
      sums_.push_back(allocateOn(device, 4 * kCount));
      gathered_.push_back(allocateOn(device, 4 * kCount * first.size()));
      device::copyMemory(own_[r].data(), elementsOf(r).data(), 4 * kCount);
      secondStreams.push_back(sharesStreams ? StreamRef(streams[r]) : StreamRef(others[r]));
    }
    clear();
  }

  int size() const { return static_cast<int>(first.size()); }
  void clear() {
    const std::vector<float> none(kCount * first.size(), -1.0f);
    for (int r = 0; r < size(); ++r) {
      device::copyMemory(sums_[r].data(), none.data(), sums_[r].bytes());
      device::copyMemory(gathered_[r].data(), none.data(), gathered_[r].bytes());
    }
  }

  void sum(int r, StreamRef stream) {
    first[r].allReduce({.send = own_[r].data(),
                        .recv = sums_[r].data(),
                        .count = kCount,
                        .type = DataType::Float32},
                       stream);
  }
  void gather(int r, StreamRef stream) {
    second[r].allGather({.send = own_[r].data(),
                         .recv = gathered_[r].data(),
                         .count = kCount,
                         .type = DataType::Float32},
                        stream);
  }
  /// Every rank of `second` gives all others its elements.
  void exchange(int r, StreamRef stream) {
    for (int peer = 0; peer < size(); ++peer) {
      second[r].send({own_[r].data(), kCount, DataType::Float32, peer}, stream);
      second[r].receive({gathered_[r].as<float>() + kCount * static_cast<size_t>(peer), kCount,
                         DataType::Float32, peer},
                        stream);
    }
  }
  /// A sum by the first communicator, and what `call` says by the second; some name that first.
  enum class Second { Gather, Exchange };
  void callBoth(int r, bool isTurned, Second call = Second::Gather) {
    if (!isTurned) sum(r, streams[r]);
    call == Second::Gather ? gather(r, secondStreams[r]) : exchange(r, secondStreams[r]);
    if (isTurned) sum(r, streams[r]);
  }

  void synchronize() {
    for (Stream& stream : streams) stream.synchronize();
    for (Stream& stream : others) stream.synchronize();
  }
  void check() const {
    for (int r = 0; r < size(); ++r) {
      std::vector<float> sums(kCount), all(kCount * first.size());
      device::copyMemory(sums.data(), sums_[r].data(), sums_[r].bytes());
      device::copyMemory(all.data(), gathered_[r].data(), gathered_[r].bytes());
      for (size_t i = 0; i < kCount; ++i) {
        float sum = 0;
        for (int from = 0; from < size(); ++from) sum += element(from, i);
        ASSERT_EQ(sums[i], sum) << "rank " << r << ", " << i;
      }
      for (int from = 0; from < size(); ++from)
        for (size_t i = 0; i < kCount; ++i)
          ASSERT_EQ(all[kCount * static_cast<size_t>(second[from].rank()) + i], element(from, i))
              << "rank " << r << " of " << from << ", " << i;
      ASSERT_FALSE(first[r].asyncError()) << r;
      ASSERT_FALSE(second[r].asyncError()) << r;
    }
  }

  std::vector<Communicator> first, second;
  std::vector<Stream> streams, others;
  std::vector<StreamRef> secondStreams;

 private:
  std::vector<Communicator> reversed() {
    std::vector<std::optional<Communicator>> made(first.size());
    runRanks(first, [&](Communicator& c) { made[c.rank()] = c.split(0, -c.rank()); });
    std::vector<Communicator> all;
    for (auto& communicator : made) all.push_back(std::move(*communicator));
    return all;
  }
  std::vector<Memory> own_, sums_, gathered_;
};

/// By kernels or by copies; then where the second one's calls are, and what it is.
class GpuGroups : public CudaTest,
                  public testing::WithParamInterface<std::tuple<bool, bool, bool>> {
 protected:
  static TwoCommunicators make(int ranks, int devices) {
    const auto [byCopies, sharesStreams, isSplit] = GetParam();
    return {ranks, devices, byCopies, sharesStreams, isSplit};
  }
};

constexpr int kTurns = 3;
using Second = TwoCommunicators::Second;

// Two of the ranks share a GPU.
TEST_P(GpuGroups, OfOneThread) {
  auto two = make(3, 2);
  for (int turn = 0; turn < kTurns; ++turn) {
    two.clear();
    {
      Group group;
      for (int r = 0; r < two.size(); ++r) two.callBoth(r, r % 2 != 0);
    }
    two.synchronize();
    two.check();
  }
}

// Where both are on one stream all ranks name the same one first.
TEST_P(GpuGroups, OfThreads) {
  auto two = make(3, 2);
  const bool sharesStreams = std::get<1>(GetParam());
  for (int turn = 0; turn < kTurns; ++turn) {
    two.clear();
    runRanks(two.first, [&](const Communicator& c) {
      Group group;
      two.callBoth(c.rank(), !sharesStreams && c.rank() % 2 != 0);
    });
    two.synchronize();
    two.check();
  }
}

TEST_P(GpuGroups, OfACollectiveAndTransfers) {
  auto two = make(3, 2);
  for (int turn = 0; turn < kTurns; ++turn) {
    two.clear();
    {
      Group group;
      for (int r = 0; r < two.size(); ++r) two.callBoth(r, r % 2 != 0, Second::Exchange);
    }
    two.synchronize();
    two.check();
    two.clear();
    runRanks(two.first, [&](const Communicator& c) {
      Group group;
      two.callBoth(c.rank(), turn % 2 != 0, Second::Exchange);
    });
    two.synchronize();
    two.check();
  }
}

const auto kEveryHow = testing::Combine(testing::Bool(), testing::Bool(), testing::Bool());

std::string nameOf(const testing::TestParamInfo<std::tuple<bool, bool, bool>>& how) {
  const auto [byCopies, sharesStreams, isSplit] = how.param;
  return std::string(byCopies ? "Copies" : "Kernels") +
         (sharesStreams ? "OnOneStream" : "OnTwoStreams") + (isSplit ? "OfASplit" : "OfASecondId");
}

INSTANTIATE_TEST_SUITE_P(By, GpuGroups, kEveryHow, nameOf);

class GpuGroupsOfASplit : public CudaTest, public testing::WithParamInterface<bool> {};

// Each stream has a call of one rank by one of them, and of the other rank by the other.
TEST_P(GpuGroupsOfASplit, OnStreamsOfEachOther) {
  TwoCommunicators two(2, 1, GetParam(), true, true);
  for (int turn = 0; turn < kTurns; ++turn) {
    two.clear();
    {
      Group group;
      for (int r = 0; r < 2; ++r) {
        two.sum(r, two.streams[r]);
        two.gather(r, two.streams[1 - r]);
      }
    }
    two.synchronize();
    two.check();
  }
}

// The group waits for both.
TEST_P(GpuGroupsOfASplit, WithoutStreams) {
  TwoCommunicators two(3, 2, GetParam(), true, true);
  runRanks(two.first, [&](const Communicator& c) {
    Group group;
    if (c.rank() % 2 != 0) two.gather(c.rank(), {});
    two.sum(c.rank(), {});
    if (c.rank() % 2 == 0) two.gather(c.rank(), {});
    group.end();
  });
  two.check();
}

TEST_P(GpuGroupsOfASplit, AreCapturedAndReplayed) {
  TwoCommunicators two(2, 2, GetParam(), true, true);
  std::vector<cudaGraphExec_t> graphs(2);
  for (int r = 0; r < 2; ++r) {
    const cudaStream_t stream = StreamRef(two.streams[r]).cuda();
    ASSERT_EQ(cudaSetDevice(two.first[r].device().index), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    {
      Group group;
      two.callBoth(r, false);
    }
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&graphs[r], graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  for (int replay = 0; replay < kTurns; ++replay) {
    two.clear();
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(cudaGraphLaunch(graphs[r], StreamRef(two.streams[r]).cuda()), cudaSuccess);
    two.synchronize();
    two.check();
  }
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(By, GpuGroupsOfASplit, testing::Bool(),
                         [](const auto& by) { return by.param ? "Copies" : "Kernels"; });

}  // namespace
}  // namespace tutti::tests
