// Communicators on emulated GPUs that do not reach each other, whose bytes arrive wrong, or where
// CUDA refuses a call while they are made: all ranks know of it, and nothing is left behind.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/executor/kernel/kernels.h"
#include "src/executor/kernel/wires.h"
#include "tests/communicator/gpu/ranks.h"
#include "tests/emulation/runtime/failing_call.h"
#include "tests/emulation/runtime/peer.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

/// What became of the ranks that were to be made.
struct Made {
  std::vector<std::optional<Communicator>> communicators;
  std::vector<Outcome> outcomes;
  bool hasFailed = false;  // the call that was to fail
};

/// Every rank is made by a thread of its own; rank 1's call of CUDA after so many others fails.
Made makeApart(const std::vector<int>& devices, bool byCopies, int callsBefore) {
  const auto size = static_cast<int>(devices.size());
  // Less than patterns are waited for: nobody waits for one that cannot come.
  CommunicatorOptions options{.id = UniqueId::create(UniqueId::Reach::Host),
                              .size = size,
                              .setupTimeout = std::chrono::seconds(9),
                              .gpuCopies = byCopies};
  Made made{.communicators = std::vector<std::optional<Communicator>>(devices.size()),
            .outcomes = std::vector<Outcome>(devices.size())};
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, options, r]() mutable {
      options.rank = r;
      options.device = gpu(devices[r]);
      std::optional<emulation::FailingCall> failing;
      if (r == 1) failing.emplace(callsBefore, cudaErrorUnknown);
      made.outcomes[r] = outcomeOf([&] { made.communicators[r] = Communicator::create(options); });
      if (failing) made.hasFailed = failing->hasFailed();
    });
  for (std::thread& thread : threads) thread.join();
  return made;
}

std::vector<Communicator> ranksOf(Made made) {
  std::vector<Communicator> ranks;
  for (size_t r = 0; r < made.communicators.size(); ++r) {
    if (!made.communicators[r]) throw std::runtime_error(made.outcomes[r].text);
    ranks.push_back(std::move(*made.communicators[r]));
  }
  return ranks;
}

struct Way {
  bool byCopies, apart;
};

std::vector<Communicator> makeOn(const std::vector<int>& devices, Way way) {
  if (way.apart) return ranksOf(makeApart(devices, way.byCopies, INT_MAX));
  CommunicatorOptions options{.gpuCopies = way.byCopies};
  for (const int device : devices) options.devices.push_back(gpu(device));
  return Communicator::createLocal(static_cast<int>(devices.size()), options);
}

class GpuSetup : public CudaTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    free_ = freeBytes();
  }
  void TearDown() override {
    EXPECT_EQ(freeBytes(), free_) << "memory of a GPU is left";
    CudaTest::TearDown();
  }

 private:
  static std::vector<size_t> freeBytes() {
    std::vector<size_t> all;
    for (int device = 0; device < kDevices; ++device) {
      size_t free = 0, total = 0;
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
      all.push_back(free);
    }
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return all;
  }
  std::vector<size_t> free_;
};

constexpr size_t kCount = 1000;

/// Every rank's calls on GPUs are refused with these words; those on the host's memory are made.
/// Returns what rank 0 says.
std::string expectApart(std::vector<Communicator> ranks, const std::vector<std::string>& words) {
  Setting s(std::move(ranks), kCount);
  std::string said;
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    const Outcome outcome = outcomeOf([&] { s.ranks[r].allReduce(s.args(int(r), kCount)); });
    expectError(outcome, ErrorCode::Unsupported, "the ranks' GPUs are not joined");
    if (r == 0) said = outcome.text;
    for (const std::string& each : words) expectError(outcome, ErrorCode::Unsupported, each);
  }
  std::vector<int> ones(s.ranks.size(), 1);
  Group group;
  for (size_t r = 0; r < s.ranks.size(); ++r)
    s.ranks[r].allReduce({.send = &ones[r], .recv = &ones[r], .count = 1, .type = DataType::Int32});
  group.end();
  EXPECT_EQ(ones, std::vector<int>(s.ranks.size(), int(s.ranks.size())));
  return said;
}

void expectJoined(std::vector<Communicator> ranks) {
  Setting s(std::move(ranks), kCount);
  const auto size = static_cast<int>(s.ranks.size());
  for (int r = 0; r < size; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  for (int r = 0; r < size; ++r) {
    s.streams[r].synchronize();
    EXPECT_TRUE(s.values[r].are(static_cast<float>(size * (size + 1) / 2))) << r;
  }
}

// Buffers of cudaMalloc() are mapped there: kernels address them, which CUDA takes for an error
// without peer access, and the emulation, which has one address space, does not.
TEST(GpuPeers, HaveAccessToEachOthersMemory) {
  const std::vector<Communicator> ranks = makeOn({1, 2, 3}, {});
  for (const int device : {1, 2, 3})
    for (const int peer : {1, 2, 3}) {
      if (device == peer) continue;
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(cudaDeviceEnablePeerAccess(peer, 0), cudaErrorPeerAccessAlreadyEnabled)
          << device << " of " << peer;
      EXPECT_EQ(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
    }
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

// Of a call of which LL128 takes as many bytes, staged by its algorithm.
TEST(GpuWires, OfACallAreOfLinesWhereAllDevicesKeepThem) {
  using transports::p2p::Wire;
  constexpr size_t kFloats = executor::kernel::kMostBytesByLL;  // four times its bytes
  emulation::joinByPcie(3, 1);
  const auto expect = [](const std::vector<int>& devices, Wire wire) {
    CommunicatorOptions options{.algorithm = "ring"};
    for (const int device : devices) options.devices.push_back(gpu(device));
    const auto size = static_cast<int>(devices.size());
    Setting s(Communicator::createLocal(size, options), kFloats);
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(kernelOf(s, r, kFloats).func, executor::kernel::interpreterAddress(wire, 4))
          << "rank " << r << " of " << size;
  };
  expect({0, 1}, Wire::LL128);
  expect({0, 1, 2}, Wire::LL128);
  expect({1, 3}, Wire::Simple);
  expect({1, 0, 3}, Wire::Simple);  // ranks of which one has no such neighbour among them
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

/// Ranks 0 and 1 say so of each other, and rank 2 of neither.
void expectByHost(const std::vector<Communicator>& ranks, const std::string& why) {
  for (const Communicator& rank : ranks) {
    const std::string text = rank.describe();
    const size_t at = text.find(" through memory of the host");
    EXPECT_EQ(at != text.npos, rank.rank() < 2) << text;
    EXPECT_EQ(text.find(", because " + why) != text.npos, rank.rank() < 2) << text;
  }
}

// One of them finds it out.
TEST_P(GpuSetup, JoinsDevicesWithoutPeerAccessByTheHost) {
  emulation::forbidPeerAccess(0, 1);
  auto ranks = makeOn({0, 1, 2}, GetParam());
  expectByHost(ranks, "device 0 has no peer access to device 1");
  expectJoined(std::move(ranks));
  expectJoined(makeOn({1, 2, 1}, GetParam()));
}

// The rank whose bytes they are sees nothing of it.
TEST_P(GpuSetup, JoinsAPairThatLiesByTheHost) {
  (GetParam().byCopies ? emulation::corruptCopies : emulation::corruptWrites)(3, 2);
  auto ranks = makeOn({2, 3, 1}, GetParam());
  expectByHost(ranks, "what rank 1 wrote arrived wrong at rank 0 on device 2");
  expectJoined(std::move(ranks));
  expectJoined(makeOn({1, 3, 1}, GetParam()));
}

/// Every so manieth call fails in its turn.
constexpr int kStride = kThreadSanitized ? 23 : kSanitized ? 11 : 5;
const std::vector<int> kThree = {1, 2, 1};

/// Whether the call was that which enables peer access: then memory of the host is in its place.
bool isWithoutAPeer(const Communicator& rank) {
  const std::string text = rank.describe();
  return text.find(", because peer access of device ") != text.npos;
}

// Whatever call of rank 1 it is: either no rank has a communicator, and the others know because of
// whom, or all have one, without their GPUs. Returns how many failed, and adds what was said of
// GPUs.
int expectFailures(Way way, int stride, std::vector<std::string>& refusals) {
  int failures = 0;
  for (int calls = 0;; calls += stride) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    Made made;
    if (way.apart) {
      made = makeApart(kThree, way.byCopies, calls);
    } else {
      const emulation::FailingCall failing(calls, cudaErrorUnknown);
      made.outcomes.push_back(outcomeOf([&] {
        for (Communicator& rank : makeOn(kThree, way))
          made.communicators.emplace_back(std::move(rank));
      }));
      made.hasFailed = failing.hasFailed();
    }
    if (!made.hasFailed) {
      expectJoined(ranksOf(std::move(made)));
      return failures;
    }
    ++failures;
    const auto isMade = [](const auto& communicator) { return communicator.has_value(); };
    if (std::ranges::any_of(made.communicators, isMade)) {
      auto ranks = ranksOf(std::move(made));
      if (std::ranges::any_of(ranks, isWithoutAPeer))
        expectJoined(std::move(ranks));
      else
        refusals.push_back(expectApart(std::move(ranks), {"unknown error"}));
      continue;
    }
    for (size_t r = 0; r < made.outcomes.size(); ++r) {
      const Outcome& outcome = made.outcomes[r];
      EXPECT_NE(outcome.code, ErrorCode::Timeout) << outcome.text;
      EXPECT_NE(outcome.text.find(way.apart && r != 1 ? "rank 1" : "cudaErrorUnknown"),
                std::string::npos)
          << r << ": " << outcome.text;
    }
  }
}

constexpr int kLeastFailures = kThreadSanitized ? 2 : kSanitized ? 4 : 10;

TEST_P(GpuSetup, WhereCudaRefusesACallFailsOnAllRanks) {
  std::vector<std::string> refusals;
  EXPECT_GT(expectFailures(GetParam(), kStride, refusals), kLeastFailures);
}

// Who cannot be joined by the host either hears both reasons.
TEST_P(GpuSetup, WhereCudaRefusesMemoryOfTheHostSaysWhyItIsNeeded) {
  emulation::forbidPeerAccess(1, 2);
  std::vector<std::string> refusals;
  EXPECT_GT(expectFailures(GetParam(), 3 * kStride, refusals), kLeastFailures / 3);
  EXPECT_TRUE(kThreadSanitized ||
              std::ranges::any_of(
                  refusals,
                  [](const std::string& text) {
                    return text.find(
                               "device 1 has no peer access to device 2; and through memory of "
                               "the host: ") != text.npos;
                  }))
      << testing::PrintToString(refusals);
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuSetup,
                         testing::Values(Way{false, false}, Way{false, true}, Way{true, false},
                                         Way{true, true}),
                         [](const auto& way) {
                           return std::string(way.param.byCopies ? "ByCopies" : "ByKernels") +
                                  (way.param.apart ? "Apart" : "Together");
                         });

}  // namespace
}  // namespace tutti::tests
