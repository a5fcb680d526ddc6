#include "bench/collectives/peers/limits.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "bench/jobs/commands.h"
#include "src/base/cores.h"

namespace tutti::bench {
namespace {

constexpr int kSpins = 1000;  // until others may want the core

void await(const std::atomic<int>& flag, int value) {
  for (int spins = 0; flag.load(std::memory_order_acquire) < value; ++spins)
    if (spins > kSpins) ::sched_yield();
}

/// What a rank sees: the buffers of both, and which half of the work may be its own.
struct View {
  const float *mine, *theirs;
  float *toMe, *toThem;
  size_t half, first;

  size_t count() const { return 2 * half; }
};
/// How both ranks at once do a collective. Which one is fastest depends on where the caches are.
using Way = void (*)(const View&);

void sumHalves(const View& v) {
  for (size_t i = v.first; i < v.first + v.half; ++i)
    v.toMe[i] = v.toThem[i] = v.mine[i] + v.theirs[i];
}
void sumForItself(const View& v) {
  for (size_t i = 0; i < v.count(); ++i) v.toMe[i] = v.mine[i] + v.theirs[i];
}
void sumOneHalf(const View& v) {
  for (size_t i = v.first; i < v.first + v.half; ++i) v.toMe[i] = v.mine[i] + v.theirs[i];
}
void giveHalfToBoth(const View& v) {
  for (size_t i = 0; i < v.half; ++i) v.toMe[v.first + i] = v.toThem[v.first + i] = v.mine[i];
}
void takeBothHalves(const View& v) {
  std::copy_n(v.mine, v.half, v.toMe + v.first);
  std::copy_n(v.theirs, v.half, v.toMe + v.half - v.first);
}
/// From the first rank to the second.
void copyOneHalf(const View& v) {
  const bool isFirst = v.first == 0;
  std::copy_n((isFirst ? v.mine : v.theirs) + v.first, v.half,
              (isFirst ? v.toThem : v.toMe) + v.first);
}
void takeFromTheFirst(const View& v) {
  if (v.first > 0) std::copy_n(v.theirs, v.count(), v.toMe);
}
void give(const View& v) { std::copy_n(v.mine, v.count(), v.toThem); }
void take(const View& v) { std::copy_n(v.theirs, v.count(), v.toMe); }

std::vector<Way> waysOf(worker_collective collective) {
  switch (collective) {
    case WORKER_ALL_REDUCE: return {sumHalves, sumForItself};
    case WORKER_REDUCE_SCATTER:
    case WORKER_REDUCE: return {sumOneHalf};
    case WORKER_ALL_GATHER: return {giveHalfToBoth, takeBothHalves};
    case WORKER_BROADCAST: return {copyOneHalf, takeFromTheFirst};
    default: return {give, take};
  }
}

using Buffer = std::vector<float>;

/// Two threads that meet before and behind each call.
class TwoRanks {
 public:
  TwoRanks(size_t count, int calls) : calls_(calls), half_(std::max<size_t>(1, count / 2)) {
    for (auto* buffers : {&send_, &recv_})
      for (Buffer& buffer : *buffers) buffer.resize(2 * half_);
  }

  double medianNs(Way way) {
    times_.clear();
    std::thread other([&] { rank(1, way); });
    rank(0, way);
    other.join();
    return medianInterval(times_).median;
  }

 private:
  void meet(int me) {
    const int turn = ++turns_[static_cast<size_t>(me)];
    at_[static_cast<size_t>(me)].store(turn, std::memory_order_release);
    await(at_[static_cast<size_t>(1 - me)], turn);
  }

  void rank(int me, Way way) {
    const base::KeptToCore core(me);
    const auto own = static_cast<size_t>(me);
    const View view{
        send_[own].data(), send_[1 - own].data(), recv_[own].data(), recv_[1 - own].data(), half_,
        own * half_};
    for (int call = 0; call < calls_; ++call) {
      for (size_t i = 0; i < send_[own].size(); ++i)
        send_[own][i] = static_cast<float>((i + static_cast<size_t>(call)) & 1023);
      meet(me);
      const double begin = now_ns();
      way(view);
      meet(me);
      const double end = now_ns();
      if (me == 0 && call > 0) times_.push_back(end - begin);
      float most = 0;
      for (const float x : recv_[own]) most = std::max(most, x);
      seen_[own].store(most, std::memory_order_relaxed);
    }
  }

  int calls_;
  size_t half_;
  std::array<Buffer, 2> send_, recv_;
  std::vector<double> times_;
  std::array<int, 2> turns_{};
  struct alignas(128) Flag : std::atomic<int> {};
  std::array<Flag, 2> at_{};
  std::array<std::atomic<float>, 2> seen_{};
};

}  // namespace

double flagLatencyNs() {
  constexpr int kTurns = 8, kRounds = 2000;
  alignas(128) std::atomic<int> there = 0;
  alignas(128) std::atomic<int> back = 0;
  std::thread other([&] {
    const base::KeptToCore core(1);
    for (int i = 1; i <= kTurns * kRounds; ++i) {
      await(there, i);
      back.store(i, std::memory_order_release);
    }
  });
  const base::KeptToCore core(0);
  double best = HUGE_VAL;
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = turn * kRounds + 1; i <= (turn + 1) * kRounds; ++i) {
      there.store(i, std::memory_order_release);
      await(back, i);
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count() / (2 * kRounds));
  }
  other.join();
  return best;
}

double clockNs() {
  constexpr int kReadings = 10'000;
  const double begin = now_ns();
  for (int i = 1; i < kReadings; ++i) (void)now_ns();
  return (now_ns() - begin) / kReadings;
}

std::optional<double> zeroCopyUs(const Case& what) {
  if (what.collective == WORKER_BARRIER) return {};
  constexpr uint64_t kMany = 64 << 10, kMuch = 16 << 20;
  const int calls = what.bytes <= kMany ? 501 : what.bytes <= kMuch ? 11 : 5;
  TwoRanks ranks(what.bytes / sizeof(float), calls);
  double best = HUGE_VAL;
  for (const Way way : waysOf(what.collective)) best = std::min(best, ranks.medianNs(way));
  return best / 1e3;
}

}  // namespace tutti::bench
