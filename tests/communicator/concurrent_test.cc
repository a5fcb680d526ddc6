// Several communicators at once, with ranks in common, each driven by a thread of its own: nothing
// that they share (the control plane, windows, the process) may mix them up, block one behind
// another, or be torn by two at a time.

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/numbers/fill.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr int kCalls = kSanitized ? 12 : 40;
constexpr size_t kMostElements = 20'000;

/// Two buffers of a rank, in windows or in ordinary memory.
struct Buffers {
  Buffers(Communicator& c, size_t bytes, bool windows) {
    if (windows) {
      inWindow = c.allocate(bytes);
      outWindow = c.allocate(bytes);
      in = inWindow.as<std::byte>();
      out = outWindow.as<std::byte>();
    } else {
      ordinary.resize(2 * bytes);
      in = ordinary.data();
      out = in + bytes;
    }
  }
  Memory inWindow, outWindow;
  std::vector<std::byte> ordinary;
  std::byte *in, *out;
};

/// One collective of any kind, size, type and memory, the same on all ranks that give the same
/// dice, checked to the bit.
void callAndCheck(Communicator& c, std::mt19937_64& dice) {
  const auto below = [&](size_t bound) { return static_cast<size_t>(dice() % bound); };
  const size_t kind = below(6);
  constexpr DataType kTypes[] = {DataType::Int8, DataType::Int32, DataType::Float32,
                                 DataType::BFloat16, DataType::Float64};
  const DataType type = kTypes[below(std::size(kTypes))];
  ReduceOp op = static_cast<ReduceOp>(below(kReduceOpCount));
  if (!isDefined(op, type)) op = ReduceOp::Sum;
  const size_t count = below(2) ? below(100) : below(kMostElements);
  const int root = static_cast<int>(below(static_cast<size_t>(c.size())));
  const bool windows = below(2) == 1;
  const numbers::FillPattern pattern{.type = type, .op = op, .seed = dice(), .ranks = c.size()};
  const size_t all = count * static_cast<size_t>(c.size());
  const size_t mine = count * static_cast<size_t>(c.rank());
  const double scalar = numbers::premulScalar(pattern, c.rank());

  Buffers b(c, all * sizeOf(type) + 1, windows);
  numbers::fillInput(pattern, c.rank(), 0, kind == 2 ? all : count, b.in);
  numbers::Comparison seen;
  switch (kind) {
    case 0:
      c.allReduce({b.in, b.out, count, type, op, scalar});
      seen = numbers::compareWithExpected(pattern, 0, count, b.out);
      break;
    case 1:
      c.reduce({b.in, b.out, count, type, op, scalar, root});
      if (c.rank() == root) seen = numbers::compareWithExpected(pattern, 0, count, b.out);
      break;
    case 2:
      c.reduceScatter({b.in, b.out, count, type, op, scalar});
      seen = numbers::compareWithExpected(pattern, mine, count, b.out);
      break;
    case 3:
      c.allGather({b.in, b.out, count, type});
      for (int r = 0; r < c.size() && seen.wrong == 0; ++r)
        seen = numbers::compareWithInput(pattern, r, 0, count,
                                         b.out + count * static_cast<size_t>(r) * sizeOf(type));
      break;
    case 4:
      c.broadcast({b.in, b.out, count, type, root});
      seen = numbers::compareWithInput(pattern, root, 0, count, b.out);
      break;
    default: c.barrier();
  }
  if (seen.wrong > 0)
    throw std::runtime_error("collective " + std::to_string(kind) + " of " + std::to_string(count) +
                             " " + toString(type) + ", " + toString(op) + ", root " +
                             std::to_string(root) + (windows ? ", in windows" : "") + ": " +
                             std::to_string(seen.wrong) + " elements are wrong, the first is " +
                             std::to_string(seen.firstWrong));
}

/// What one thread does with its communicator. Now and then it splits it, while the other threads
/// are in their calls, and goes on with both.
void callMany(Communicator& c, uint64_t seed) {
  std::mt19937_64 dice(seed);
  for (int call = 0; call < kCalls; ++call) {
    callAndCheck(c, dice);
    if (call % 8 != 3) continue;
    // The halves draw from dice of their own, so that all of `c` go on with the same ones.
    const int colors = 1 + static_cast<int>(dice() % 2);
    const int key = dice() % 2 ? -c.rank() : c.rank();
    const uint64_t halves = dice();
    auto half = c.split(c.rank() % colors, key);
    std::mt19937_64 dicesOfHalf(halves + static_cast<uint64_t>(c.rank() % colors));
    for (int i = 0; i < 3; ++i) callAndCheck(*half, dicesOfHalf);
  }
}

/// The communicators of one rank: its own, some of all ranks, and some of a part of them, which
/// have ranks in common; and a thread for each.
void runThreads(Communicator& world) {
  const uint64_t seed = testSeed();
  std::vector<std::pair<Communicator, uint64_t>> all;
  const auto add = [&](int color, int key, uint64_t number) {
    if (auto part = world.split(color, key))
      all.emplace_back(std::move(*part), seed + 100 * number + static_cast<uint64_t>(color));
  };
  const int rank = world.rank();
  add(0, rank, 1);                // all
  add(0, -rank, 2);               // all, the other way round
  add(rank / 2, 0, 3);            // neighbours
  add(rank % 2, -rank, 4);        // every other
  add(rank == 0 ? -1 : 0, 0, 5);  // all but the first
  std::vector<std::exception_ptr> failures(all.size() + 1);
  std::vector<std::thread> threads;
  const auto start = [&](size_t index, Communicator& c, uint64_t itsSeed) {
    threads.emplace_back([&failures, &c, index, itsSeed] {
      try {
        callMany(c, itsSeed);
      } catch (...) {
        failures[index] = std::current_exception();
        c.abort();  // so that nobody waits for this rank
      }
    });
  };
  start(all.size(), world, seed);
  for (size_t i = 0; i < all.size(); ++i) start(i, all[i].first, all[i].second);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

TEST(Concurrent, CommunicatorsOfProcessesEachInItsThread) {
  testSeed();  // drawn before ranks are forked, which must all have the same
  RankProcesses ranks(4, [](const RankProcesses::Context& context) {
    Communicator world = context.join({.timeout = 20s});
    runThreads(world);
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

TEST(Concurrent, CommunicatorsOfThreadsEachInItsThread) {
  auto ranks = Communicator::createLocal(4, {.timeout = 20s});
  runRanks(ranks, runThreads);
}

}  // namespace
}  // namespace tutti::tests
