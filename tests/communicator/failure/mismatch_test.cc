// Rows 4 and 5 of the failure table: ranks that disagree about a call. Rank 1 is the one that
// differs. Every rank gets an error that prints both sides, nothing hangs, and nothing that came of
// the disagreement is in anybody's recv, in ordinary memory and in windows.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr std::byte kCanary{0xa5};
constexpr int kOdd = 1;
constexpr size_t kLarge = 500000;

// Every byte that rank r sends.
std::byte sentBy(int rank) { return static_cast<std::byte>(rank + 1); }

/// The arguments of one rank's call; recv is full of canaries before it.
struct Buffers {
  const std::byte* send;
  std::byte* recv;
};

constexpr int kSums = -2;

/// The float32 that byte `at` belongs to is a sum over ranks up to `rank` that agree.
bool isAgreedSum(const std::byte* recv, size_t at, int rank) {
  float sum = 0;
  for (int r = rank; r > kOdd; --r) {
    const std::array<std::byte, 4> bytes{sentBy(r), sentBy(r), sentBy(r), sentBy(r)};
    sum = r == rank ? std::bit_cast<float>(bytes) : std::bit_cast<float>(bytes) + sum;
    if (std::memcmp(recv + at / 4 * 4, &sum, 4) == 0) return true;
  }
  return false;
}

struct Disagreement {
  const char* name;
  std::function<void(Communicator&, const Buffers&)> call;  // differs by rank
  std::vector<std::string> mentions;
  /// What may be in recv although the call threw: whose byte, -1 for nobody's, kSums for sums of
  /// ranks that agree.
  std::function<int(int rank, size_t at)> mayHold = [](int, size_t) { return -1; };
  /// Ranks that need nothing from rank 1.
  std::function<bool(int rank)> mayReturn = [](int) { return false; };
};

void sum(Communicator& c, const Buffers& b, size_t count, DataType type = DataType::Float32,
         ReduceOp op = ReduceOp::Sum) {
  c.allReduce({.send = b.send, .recv = b.recv, .count = count, .type = type, .op = op});
}

void broadcast(Communicator& c, const Buffers& b, size_t count, int root) {
  c.broadcast(
      {.send = b.send, .recv = b.recv, .count = count, .type = DataType::Float32, .root = root});
}

void gather(Communicator& c, const Buffers& b, size_t count) {
  c.allGather({.send = b.send, .recv = b.recv, .count = count, .type = DataType::Float32});
}

void scatter(Communicator& c, const Buffers& b, size_t count) {
  c.reduceScatter({.send = b.send, .recv = b.recv, .count = count, .type = DataType::Float32});
}

void reduceTo(Communicator& c, const Buffers& b, size_t count, int root) {
  c.reduce(
      {.send = b.send, .recv = b.recv, .count = count, .type = DataType::Float32, .root = root});
}

template <class T>
T odd(const Communicator& c, T differs, T same) {
  return c.rank() == kOdd ? differs : same;
}

// Blocks of ranks that agree may have come, and every rank's own is its own.
std::function<int(int, size_t)> blocksOf(size_t count) {
  return [count](int rank, size_t at) {
    const int block = static_cast<int>(at / (count * 4));
    return block == rank || (rank != kOdd && block != kOdd) ? block : -1;
  };
}

std::vector<Disagreement> disagreements() {
  using C = Communicator;
  using B = Buffers;
  return {
      {"count", [](C& c, const B& b) { sum(c, b, odd(c, 1025, 1024)); }, {"1024", "1025"}},
      {"large count",
       [](C& c, const B& b) { sum(c, b, odd(c, kLarge, kLarge + 1)); },
       {"500000", "500001"}},
      {"zero count", [](C& c, const B& b) { sum(c, b, odd(c, 0, 4)); }, {"of 0", "of 4"}},
      {"type",
       [](C& c, const B& b) { sum(c, b, 64, odd(c, DataType::Int32, DataType::Float32)); },
       {"int32", "float32"}},
      {"large, type",
       [](C& c, const B& b) { sum(c, b, kLarge, odd(c, DataType::Int32, DataType::Float32)); },
       {"int32", "float32"}},
      {"reduction",
       [](C& c, const B& b) {
         sum(c, b, 64, DataType::Float32, odd(c, ReduceOp::Max, ReduceOp::Sum));
       },
       {"max", "sum"}},
      {"root",
       [](C& c, const B& b) { broadcast(c, b, 16, c.rank() == 0 ? 1 : 0); },
       {"root 0", "root 1"}},
      {"collective",
       [](C& c, const B& b) { c.rank() == kOdd ? gather(c, b, 16) : sum(c, b, 16); },
       {"all_gather", "all_reduce"},
       [](int rank, size_t at) { return rank == kOdd && at / 64 == kOdd ? kOdd : -1; }},
      {"order",
       [](C& c, const B& b) {
         if (c.rank() == kOdd) c.barrier();
         sum(c, b, 16);
         if (c.rank() != kOdd) c.barrier();
       },
       {"barrier", "all_reduce"}},
      {"scatter count",
       [](C& c, const B& b) { scatter(c, b, odd(c, 1001, 1000)); },
       {"1000", "1001"}},
      {"large scatter count",
       [](C& c, const B& b) { scatter(c, b, odd(c, kLarge / 4, kLarge / 5)); },
       {"125000", "100000"}},
      {"gather count",
       [](C& c, const B& b) { gather(c, b, odd(c, 1001, 1000)); },
       {"1000", "1001"},
       [](int rank, size_t at) { return blocksOf(rank == kOdd ? 1001 : 1000)(rank, at); }},
      {"large gather count",
       [](C& c, const B& b) { gather(c, b, odd(c, kLarge / 4, kLarge / 5)); },
       {"125000", "100000"},
       [](int rank, size_t at) { return blocksOf(kLarge / (rank == kOdd ? 4 : 5))(rank, at); }},
      {"broadcast count",
       [](C& c, const B& b) { broadcast(c, b, odd(c, 1001, 1000), 0); },
       {"1000", "1001"},
       [](int rank, size_t at) { return rank != kOdd && at < 4000 ? 0 : -1; },
       [](int rank) { return rank != kOdd; }},
      {"large broadcast count",
       [](C& c, const B& b) { broadcast(c, b, odd(c, kLarge, kLarge + 1), 0); },
       {"500000", "500001"},
       [](int rank, size_t) { return rank != kOdd ? 0 : -1; },
       [](int rank) { return rank != kOdd; }},
      {"reduce count",
       [](C& c, const B& b) { reduceTo(c, b, odd(c, 1001, 1000), 0); },
       {"1000", "1001"},
       [](int, size_t) { return -1; },
       [](int rank) { return rank != 0; }},
      {"count of a gather to the root",
       [](C& c, const B& b) {
         c.gather({b.send, b.recv, odd<size_t>(c, 1001, 1000), DataType::Float32});
       },
       {"1000", "1001"},
       [](int rank, size_t at) { return rank == 0 ? blocksOf(1000)(0, at) : -1; },
       [](int rank) { return rank != 0; }},
      {"count of a scatter from the root",
       [](C& c, const B& b) {
         c.scatter({b.send, b.recv, odd<size_t>(c, 1001, 1000), DataType::Float32});
       },
       {"1000", "1001"},
       [](int rank, size_t at) { return rank != kOdd && at < 4000 ? 0 : -1; },
       [](int rank) { return rank != kOdd; }},
      {"alltoall count",
       [](C& c, const B& b) {
         c.allToAll({b.send, b.recv, odd<size_t>(c, 1001, 1000), DataType::Float32});
       },
       {"1000", "1001"},
       [](int rank, size_t at) { return blocksOf(rank == kOdd ? 1001 : 1000)(rank, at); }},
      {"large alltoall count",
       [](C& c, const B& b) {
         c.allToAll({b.send, b.recv, odd(c, kLarge / 4, kLarge / 5), DataType::Float32});
       },
       {"125000", "100000"},
       [](int rank, size_t at) { return blocksOf(kLarge / (rank == kOdd ? 4 : 5))(rank, at); }},
      {"scan count",
       [](C& c, const B& b) {
         c.scan({b.send, b.recv, odd<size_t>(c, 1001, 1000), DataType::Float32});
       },
       {"1000", "1001"},
       [](int rank, size_t at) { return rank == kOdd || at >= 4000 ? -1
                                        : rank == 0                ? 0
                                                                   : kSums; },
       [](int rank) { return rank == 0; }},
  };
}

constexpr size_t kBytes = 4 * (kLarge + 1);

// 0, or says what is wrong.
int runRank(const RankProcesses::Context& context, const Disagreement& d, bool windows) {
  std::vector<std::byte> send(kBytes, sentBy(context.rank)), recv(kBytes, kCanary);
  Memory sendWindow, recvWindow;
  Buffers buffers{send.data(), recv.data()};
  bool returned = false;
  try {
    // Others may find the mismatch before this rank has heard that set-up is complete.
    Communicator c = context.join({.timeout = 20s});
    if (windows) {
      sendWindow = c.allocate(kBytes);
      recvWindow = c.allocate(kBytes);
      std::copy(send.begin(), send.end(), sendWindow.as<std::byte>());
      std::copy(recv.begin(), recv.end(), recvWindow.as<std::byte>());
      buffers = {sendWindow.as<std::byte>(), recvWindow.as<std::byte>()};
    }
    d.call(c, buffers);
    returned = true;
    while (true) c.barrier();  // a rank whose own part was done learns it here
  } catch (const Error& e) {
    context.say(std::string(toString(e.code())) + "|" + e.what());
  }
  if (returned) {
    context.say("the call returned");
    return d.mayReturn(context.rank) ? 0 : 1;
  }
  for (size_t i = 0; i < kBytes; ++i) {
    if (buffers.recv[i] == kCanary) continue;
    const int owner = d.mayHold(context.rank, i);
    if (owner == kSums && isAgreedSum(buffers.recv, i, context.rank)) continue;
    if (owner >= 0 && buffers.recv[i] == sentBy(owner)) continue;
    context.say("byte " + std::to_string(i) + " of recv is " +
                std::to_string(static_cast<int>(buffers.recv[i])));
    return 2;
  }
  return 0;
}

class Mismatch : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Mismatch, IsRefusedOnAllRanksWithBothSidesAndDeliversNothing) {
  const auto [size, windows] = GetParam();
  for (const Disagreement& d : disagreements()) {
    RankProcesses ranks(size, [&, windows = windows](const RankProcesses::Context& context) {
      return runRank(context, d, windows);
    });
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(ranks.wait(r, 15s), 0) << d.name << " rank " << r << ": " << ranks.output(r);
      const std::string out = ranks.output(r);
      EXPECT_TRUE(contains(out, "mismatch|")) << d.name << " rank " << r << ": " << out;
      for (const auto& mention : d.mentions)
        EXPECT_TRUE(contains(out, mention)) << d.name << " rank " << r << ": " << out;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mismatch, testing::Combine(testing::Values(2, 4), testing::Bool()));

// Both only send, so both calls end well; the next one finds what they have left.
TEST(LateMismatch, NamesTheCallsThatDifferAndNotThoseThatFindIt) {
  auto ranks = Communicator::createLocal(2, {.timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    float send[32] = {}, recv[32] = {};
    c.barrier();
    if (c.rank() == 0)
      c.scatter({.send = send, .recv = recv, .count = 16, .root = 0});
    else
      c.gather({.send = send, .recv = recv, .count = 16, .root = 0});
    const Outcome outcome = outcomeOf([&] { c.barrier(); });
    EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
    for (const char* part : {"ranks disagree about operation 2", "calls scatter of 16 float32",
                             "calls gather of 16 float32"})
      EXPECT_TRUE(contains(outcome.text, part)) << part << " is not in: " << outcome.text;
  });
}

}  // namespace
}  // namespace tutti::tests
