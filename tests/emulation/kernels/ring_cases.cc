// Ranks as launches that run at the same time, each from an OS thread of its own.

#include <thread>

#include <tutti/cuda/launch.h>

#include "tests/emulation/device_array.h"
#include "tests/emulation/kernels/cases.h"
#include "tests/emulation/kernels/exchange_device.cuh"
#include "tests/emulation/kernels/ring_device.cuh"

namespace tutti::emulation::kernels {
namespace {

/// Calls launchRank(rank, stream) for each from a thread of its own, and waits for all.
template <class LaunchRank>
void onRanks(int ranks, LaunchRank launchRank) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&launchRank, rank] {
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      launchRank(rank, stream);
      check(cudaStreamSynchronize(stream));
      check(cudaStreamDestroy(stream));
    });
  for (std::thread& thread : threads) thread.join();
}

constexpr int kRanks = 4, kChannels = 2;
constexpr uint64_t kRingCount = 3001;

struct RingRank {
  DeviceArray<float> data{kRingCount}, inbox{kChannels * kSlots * kRingCount};
  DeviceArray<uint64_t> flag{kChannels}, credit{kChannels};
};

template <RingBug kBug>
bool runRing() {
  std::vector<RingRank> ranks(kRanks);
  std::vector<float> sum(kRingCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    Random random(uint64_t(rank) + 1);
    std::vector<float> values(kRingCount);
    for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i] = float(random.between(99));
    ranks[size_t(rank)].data.upload(values);
    ranks[size_t(rank)].flag.fill(0);
    ranks[size_t(rank)].credit.fill(0);
  }
  onRanks(kRanks, [&](int rank, cudaStream_t stream) {
    const auto at = [&](int other) -> RingRank& {
      return ranks[size_t((other + kRanks) % kRanks)];
    };
    RingRank &own = at(rank), &next = at(rank + 1), &previous = at(rank - 1);
    const RingArguments arguments{own.data.get(),
                                  own.inbox.get(),
                                  next.inbox.get(),
                                  own.flag.get(),
                                  next.flag.get(),
                                  own.credit.get(),
                                  previous.credit.get(),
                                  kRingCount,
                                  kRingCount,
                                  rank,
                                  kRanks};
    check(cuda::launch(ringAllReduce<kBug>,
                       {.grid = dim3(kChannels), .block = dim3(96), .stream = stream}, arguments));
  });
  bool right = true;
  for (const RingRank& rank : ranks) right = right && rank.data.download() == sum;
  return right;
}

/// Two ranks of LL or LL128; `Word` is what is added up.
template <class Word>
bool runExchange(void (*kernel)(ExchangeArguments), uint32_t count, dim3 grid, dim3 block) {
  constexpr int kRounds = 24;
  constexpr uint64_t kSlotBytes = 1 << 13;
  std::vector<DeviceArray<Word>> words;
  std::vector<DeviceArray<char>> inboxes;
  std::vector<Word> expected(count);
  for (uint64_t rank = 0; rank < 2; ++rank) {
    Random random(rank + 5);
    std::vector<Word> values(count);
    for (size_t i = 0; i < count; ++i) expected[i] += values[i] = Word(random.next());
    words.emplace_back(values);
    inboxes.emplace_back(2 * kSlotBytes + 16);
    inboxes.back().fill(0);
  }
  for (Word& word : expected) word <<= kRounds - 1;  // both have the sum after the first round
  onRanks(2, [&](int rank, cudaStream_t stream) {
    const ExchangeArguments arguments{inboxes[size_t(rank)].get(),
                                      inboxes[size_t(1 - rank)].get(),
                                      kSlotBytes,
                                      reinterpret_cast<uint32_t*>(words[size_t(rank)].get()),
                                      count,
                                      kRounds};
    check(cuda::launch(kernel, {.grid = grid, .block = block, .stream = stream}, arguments));
  });
  return words[0].download() == expected && words[1].download() == expected;
}

}  // namespace

std::vector<Case> ringCases() {
  return {{"ring", [](int bug) {
             return withBug<RingBug::None, RingBug::NoBarrierBeforeFlag, RingBug::RelaxedFlag,
                            RingBug::RelaxedLoad, RingBug::NoCredit, RingBug::TailDropped,
                            RingBug::NoBarrierBeforeCredit>(
                 bug, []<RingBug kBug>() { return runRing<kBug>(); });
           }}};
}

std::vector<Case> exchangeCases() {
  const auto ll = [](int bug) {
    return withBug<ExchangeBug::None, ExchangeBug::OneFlagChecked, ExchangeBug::OneSlot,
                   ExchangeBug::OldFlag, ExchangeBug::UnalignedMessages>(
        bug, []<ExchangeBug kBug>() {
          return runExchange<uint32_t>(exchangeLL<kBug>, 500, dim3(2), dim3(64));
        });
  };
  const auto ll128 = [](int bug) {
    return withBug<ExchangeBug::None, ExchangeBug::OldFlag, ExchangeBug::LanesApart,
                   ExchangeBug::NoVote>(bug, []<ExchangeBug kBug>() {
      return runExchange<uint64_t>(exchangeLL128<kBug>, 16 * 15, dim3(1), dim3(32));
    });
  };
  return {{"ll", ll}, {"ll128", ll128}};
}

}  // namespace tutti::emulation::kernels
