// Ranks whose streams share few of their device's queues, as CUDA_DEVICE_MAX_CONNECTIONS says, or
// one stream: what one of them waits for is never behind that wait.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/device/any_stream.h"
#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

/// Ranks that wait in a circle find their deadline.
CopyRanksOptions soon(int ranks, int devices, size_t streams) {
  return {.ranks = ranks,
          .devices = devices,
          .executor = {.deadlineNs = 10'000'000'000, .mostStreams = streams}};
}

/// Launches of all ranks, as they are.
using Operations = std::vector<executor::GpuLaunch>;

StreamRef streamOf(CopyRanks& ranks, int rank) {
  return device::AnyStream::cudaRef(ranks.stream(rank), ranks.deviceOf(rank));
}

/// Of all ranks at once, by one thread; what is wrong then.
std::string differenceOfAllAtOnce(CopyRanks& ranks, const Call& call, bool shareStream) {
  constexpr uint64_t kSeed = 5;
  ranks.begin(call, kSeed);
  std::vector<CopyLaunch> launches;
  for (int r = 0; r < ranks.size(); ++r) launches.push_back(ranks.launchOf(r));
  Operations all;
  for (int r = 0; r < ranks.size(); ++r)
    all.push_back({.executor = &ranks.executor(r),
                   .plan = launches[r].plan,
                   .call = &launches[r].call,
                   .stream = streamOf(ranks, shareStream ? 0 : r)});
  ranks.executor(0).launch(all);
  ranks.finish();
  std::vector<Buffer> results;
  for (int r = 0; r < ranks.size(); ++r) {
    if (const auto failed = ranks.executor(r).failure()) return failed->what();
    results.push_back(ranks.buffer(r).download());
  }
  return difference(call, hostResult(call, kSeed, kCopyLayout.copySlotBytes), results);
}

// Every rank has a device, as processes have one each.
TEST(CopyQueues, OfARankMayBeFew) {
  for (const int size : {2, 3, 4}) {
    CopyRanks ranks(soon(size, size, 6));
    for (const plan::PlanSpec& spec : stagedPlans(size, 2)) {
      const Call call{.spec = spec, .count = 3001};
      ASSERT_EQ(
          difference(call, hostResult(call, 3, kCopyLayout.copySlotBytes), ranks.run(call, 3)), "");
    }
  }
}

TEST(CopyQueues, AreSharedByRanksThatCallTogether) {
  for (const bool shareStream : {false, true}) {
    CopyRanks ranks(soon(3, 1, 1));
    for (const plan::PlanSpec& spec : stagedPlans(3, 2))
      ASSERT_EQ(differenceOfAllAtOnce(ranks, {.spec = spec, .count = 3001}, shareStream), "");
  }
}

/// Everybody sends to everybody, in as many messages as the two ranks' numbers say.
class AllToAll {
 public:
  explicit AllToAll(CopyRanks& ranks) : ranks_(ranks) {
    for (int r = 0; r < ranks.size(); ++r) {
      sent_.emplace_back(ranks.deviceOf(r), Buffer(kMost, std::byte(r + 1)), 0);
      for (int from = 0; from < ranks.size(); ++from)
        received_.emplace_back(ranks.deviceOf(r), Buffer(bytes(from, r)), 0);
    }
  }
  Exchange of(int rank) const {
    Exchange exchange;
    for (int peer = 0; peer < ranks_.size(); ++peer) {
      exchange.sends.push_back({peer, sent_[rank].data(), bytes(rank, peer)});
      exchange.receives.push_back({peer, at(rank, peer).data(), bytes(peer, rank)});
    }
    return exchange;
  }
  void expectReceived() const {
    for (int r = 0; r < ranks_.size(); ++r) {
      ASSERT_EQ(std::string(ranks_.failureOf(r).what()), "");
      for (int from = 0; from < ranks_.size(); ++from)
        EXPECT_EQ(at(r, from).download(), Buffer(bytes(from, r), std::byte(from + 1)));
    }
  }

 private:
  static constexpr size_t kMost = 200'000;
  static size_t bytes(int from, int to) { return 60'000 + 17'000 * static_cast<size_t>(from + to); }
  const DeviceBuffer& at(int rank, int from) const {
    return received_[static_cast<size_t>(rank * ranks_.size() + from)];
  }
  CopyRanks& ranks_;
  std::vector<DeviceBuffer> sent_, received_;
};

TEST(CopyQueues, OfARankMayBeFewForAnExchange) {
  CopyRanks ranks(soon(4, 4, 6));
  const AllToAll all(ranks);
  for (int r = 0; r < 4; ++r) exchangeOn(ranks.executor(r), all.of(r), ranks.stream(r));
  ranks.finish();
  all.expectReceived();
}

// More messages than a stream takes: who enqueued all of one rank first would wait for ever.
TEST(CopyQueues, AreSharedInAnExchangeOfRanksThatCallTogether) {
  for (const bool shareStream : {false, true}) {
    CopyRanks ranks(soon(3, 1, 1));
    const AllToAll all(ranks);
    std::vector<Exchange> exchanges;
    for (int r = 0; r < 3; ++r) exchanges.push_back(all.of(r));
    Operations operations;
    for (int r = 0; r < 3; ++r)
      operations.push_back({.executor = &ranks.executor(r),
                            .exchange = &exchanges[r],
                            .stream = streamOf(ranks, shareStream ? 0 : r)});
    ranks.executor(0).launch(operations);
    ranks.finish();
    all.expectReceived();
  }
}

}  // namespace
}  // namespace tutti::tests
