// Bits. In deterministic mode every reduction is the aligned binary tree over ranks, rounded to the
// type at every node, whatever the algorithm, the memory and the place of the root; the reference
// computes that apart. In the default mode all ranks get the same bits. Random values of every
// floating-point type: special values and any bits among them.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include <tutti/tutti.h>

#include "collectives/algorithms.h"
#include "src/communicator/local.h"
#include "tests/numbers/reference.h"
#include "tests/numbers/sample.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/sim/endpoint.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {
namespace {

using numbers::FoldOrder;
using plan::Collective;

constexpr DataType kFloats[] = {DataType::Float16, DataType::BFloat16,   DataType::Float32,
                                DataType::Float64, DataType::Float8E4M3, DataType::Float8E5M2};
constexpr const char* kNames[] = {"",         "ring",     "double_tree", "recursive",
                                  "one_shot", "two_shot", "mapped"};
constexpr size_t kCount = 101;  // of one block: several partial vectors, odd divisions

using Bytes = std::vector<std::byte>;

/// Inexact, and different on all ranks, so that a premultiplied input needs rounding; one is 1.
double scalarOf(int rank) { return rank == 3 ? 1.0 : 1.0 / (3 - 0.7 * rank); }

/// Inputs of all ranks: `ranks` blocks each, of which all but ReduceScatter use the first.
struct Problem {
  DataType type;
  ReduceOp op;
  std::vector<Bytes> inputs;
  Bytes tree;                 // of all blocks
  std::vector<Bytes> prefix;  // by rank, of the first block: the tree over the ranks up to it

  Problem(DataType t, ReduceOp o, int ranks) : type(t), op(o) {
    numbers::sample::Random random(testSeed() + static_cast<uint64_t>(ranks));
    const size_t elements = kCount * static_cast<size_t>(ranks);
    inputs.assign(static_cast<size_t>(ranks), Bytes(elements * sizeOf(type)));
    tree.resize(elements * sizeOf(type));
    prefix.assign(static_cast<size_t>(ranks), Bytes(kCount * sizeOf(type)));
    numbers::reference::Scalars scalars;
    if (op == ReduceOp::Avg) scalars.divideBy = ranks;
    if (op == ReduceOp::PreMulSum)
      for (int r = 0; r < ranks; ++r) scalars.premultiply.push_back(scalarOf(r));
    std::vector<uint64_t> bits(inputs.size());
    for (size_t i = 0; i < elements; ++i) {
      // Any one kind for most elements, and now and then all kinds mixed.
      for (size_t r = 0; r < bits.size(); ++r) {
        bits[r] = numbers::sample::element(type, static_cast<int>(i % 5 == 4 ? r : i), random);
        numbers::reference::storeBits(type, inputs[r].data(), i, bits[r]);
      }
      numbers::reference::storeBits(
          type, tree.data(), i,
          numbers::reference::fold(type, op, FoldOrder::Canonical, bits, scalars));
      if (i < kCount && op != ReduceOp::Avg) storePrefixes(i, bits, scalars);
    }
  }

 private:
  void storePrefixes(size_t i, const std::vector<uint64_t>& bits,
                     const numbers::reference::Scalars& scalars) {
    for (size_t r = 0; r < bits.size(); ++r) {
      const auto upTo = static_cast<std::ptrdiff_t>(r) + 1;
      numbers::reference::Scalars its = scalars;
      if (!its.premultiply.empty()) its.premultiply.resize(r + 1);
      numbers::reference::storeBits(
          type, prefix[r].data(), i,
          numbers::reference::fold(type, op, FoldOrder::Canonical,
                                   {bits.begin(), bits.begin() + upTo}, its));
    }
  }
};

/// Buffers of the kind that the algorithm wants: "mapped" wants windows.
struct Buffers {
  Memory windowIn, windowOut;
  Bytes in, out;
  std::byte *send, *recv;
  Buffers(Communicator& c, size_t bytes, bool window) {
    if (window) {
      windowIn = c.allocate(bytes);
      windowOut = c.allocate(bytes);
      send = windowIn.as<std::byte>();
      recv = windowOut.as<std::byte>();
    } else {
      in.resize(bytes);
      out.resize(bytes);
      send = in.data();
      recv = out.data();
    }
  }
};

/// This rank's result, empty where it has none.
Bytes resultOf(Communicator& c, Buffers& at, const Problem& p, Collective collective, int root) {
  const Bytes& input = p.inputs[static_cast<size_t>(c.rank())];
  std::copy(input.begin(), input.end(), at.send);
  const double scalar = scalarOf(c.rank());
  switch (collective) {
    case Collective::AllReduce:
      c.allReduce({at.send, at.recv, kCount, p.type, p.op, scalar});
      break;
    case Collective::ReduceScatter:
      c.reduceScatter({at.send, at.recv, kCount, p.type, p.op, scalar});
      break;
    case Collective::Scan: c.scan({at.send, at.recv, kCount, p.type, p.op, scalar}); break;
    default:
      c.reduce({at.send, at.recv, kCount, p.type, p.op, scalar, root});
      if (c.rank() != root) return {};
  }
  return {at.recv, at.recv + kCount * sizeOf(p.type)};
}

bool eligible(const std::string& name, Collective collective, int ranks, int root) {
  if (name.empty()) return true;
  const auto protocol = name == "mapped" ? plan::Protocol::Mapped : plan::Protocol::Simple;
  const auto algorithms = collectives::registry().algorithms();
  return std::any_of(algorithms.begin(), algorithms.end(), [&](const auto& info) {
    const auto spec = info.spec({collective, protocol, ranks, root, 1});
    return spec && spec->canonicalOrder &&
           (name == "mapped" || name == plan::toString(info.algorithm));
  });
}

std::string nameOf(const Problem& p, const std::string& algorithm, Collective collective, int rank,
                   int ranks) {
  return std::string(plan::toString(collective)) + " " + toString(p.type) + " " + toString(p.op) +
         " by '" + algorithm + "', rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
         ", seed " + std::to_string(testSeed());
}

std::vector<Problem> problemsFor(int ranks) {
  std::vector<Problem> problems;
  for (const DataType type : kFloats)
    for (int op = 0; op < kReduceOpCount; ++op)
      if (isDefined(static_cast<ReduceOp>(op), type))
        problems.emplace_back(type, static_cast<ReduceOp>(op), ranks);
  return problems;
}

class Bits : public testing::TestWithParam<int> {};

TEST_P(Bits, InDeterministicModeAreTheTreesWhateverTheAlgorithm) {
  const int ranks = GetParam();
  const auto problems = problemsFor(ranks);
  int combinations = 0;
  for (const std::string name : kNames) {
    auto members = Communicator::createLocal(ranks, {.deterministic = true, .algorithm = name});
    for (const auto collective :
         {Collective::AllReduce, Collective::Reduce, Collective::ReduceScatter}) {
      const int lastRoot = collective == Collective::Reduce ? ranks - 1 : 0;
      for (int root = 0; root <= lastRoot; ++root) {
        if (!eligible(name, collective, ranks, root)) continue;
        ++combinations;
        runRanks(members, [&](Communicator& c) {
          for (const Problem& p : problems) {
            Buffers at(c, p.inputs[0].size(), name == "mapped");
            const Bytes result = resultOf(c, at, p, collective, root);
            const size_t first =
                collective == Collective::ReduceScatter ? result.size() * c.rank() : 0;
            EXPECT_TRUE(std::equal(result.begin(), result.end(), p.tree.begin() + first))
                << nameOf(p, name, collective, c.rank(), ranks) << ", root " << root;
          }
        });
      }
    }
  }
  // The chooser's own choice and the five forced plans: recursive, one shot, two shot, mapped, for
  // AllReduce at least.
  EXPECT_GE(combinations, 5 + ranks);
}

TEST_P(Bits, OfAScanAreTheTreesOfItsRanks) {
  const int ranks = GetParam();
  const auto problems = problemsFor(ranks);
  int combinations = 0;
  for (const std::string name : kNames) {
    if (!eligible(name, Collective::Scan, ranks, 0)) continue;
    ++combinations;
    auto members = Communicator::createLocal(ranks, {.deterministic = true, .algorithm = name});
    runRanks(members, [&](Communicator& c) {
      for (const Problem& p : problems) {
        if (p.op == ReduceOp::Avg) continue;
        Buffers at(c, p.inputs[0].size(), name == "mapped");
        EXPECT_EQ(
            resultOf(c, at, p, Collective::Scan, 0) == p.prefix[static_cast<size_t>(c.rank())],
            true)
            << nameOf(p, name, Collective::Scan, c.rank(), ranks);
      }
    });
  }
  EXPECT_GE(combinations, 3);  // the chooser's own, recursive and one shot
}

TEST_P(Bits, InDefaultModeAreTheSameOnAllRanks) {
  const int ranks = GetParam();
  const auto problems = problemsFor(ranks);
  for (const std::string name : kNames) {
    auto members = Communicator::createLocal(ranks, {.algorithm = name});
    std::vector<Bytes> first(problems.size());
    std::mutex mutex;
    runRanks(members, [&](Communicator& c) {
      for (size_t i = 0; i < problems.size(); ++i) {
        Buffers at(c, problems[i].inputs[0].size(), name == "mapped");
        const Bytes result = resultOf(c, at, problems[i], Collective::AllReduce, 0);
        std::lock_guard lock(mutex);
        if (first[i].empty()) first[i] = result;
        EXPECT_EQ(result == first[i], true)
            << nameOf(problems[i], name, Collective::AllReduce, c.rank(), ranks);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Bits, testing::Values(2, 3, 5, 8));

using MakeEndpoint = std::function<std::unique_ptr<transports::Endpoint>(int rank)>;

/// Transports and the cuts that they make of messages: large slots, small ones, a simulated wire.
std::vector<std::pair<const char*, MakeEndpoint>> wires(int ranks) {
  const auto shm = [ranks](const transports::RingLayout& layout) -> MakeEndpoint {
    return [=](int rank) { return transports::shm::makeShmEndpoint(rank, ranks, layout); };
  };
  const auto network = std::make_shared<transports::sim::SimNetwork>(
      ranks, transports::RingLayout{.channels = 2, .slotCount = 2, .slotBytes = 4096},
      transports::sim::SimOptions{.seed = testSeed(), .reorder = 0.1, .loss = 0.01});
  return {{"large slots", shm({.channels = 2, .slotCount = 4, .slotBytes = 256 << 10})},
          {"small slots", shm({.channels = 2, .slotCount = 2, .slotBytes = 1024})},
          {"sim", [network](int rank) { return transports::sim::makeSimEndpoint(network, rank); }}};
}

/// Over many rounds and pieces: float32 through staged slots and windows.
TEST(LargeBits, AreTheTreesInEveryRoundOnEveryTransport) {
  constexpr size_t kLarge = 20011;
  for (const int ranks : {3, 8}) {
    std::vector<float> expected(kLarge);
    const auto value = [](int rank, size_t i) {
      std::mt19937_64 random(testSeed() + i * 64 + static_cast<size_t>(rank));
      return static_cast<float>(static_cast<int32_t>(random())) * 1.7e-7f;
    };
    for (size_t i = 0; i < kLarge; ++i) {
      std::vector<uint64_t> bits;
      for (int r = 0; r < ranks; ++r) bits.push_back(std::bit_cast<uint32_t>(value(r, i)));
      expected[i] = std::bit_cast<float>(static_cast<uint32_t>(numbers::reference::fold(
          DataType::Float32, ReduceOp::Sum, FoldOrder::Canonical, bits, {})));
    }
    for (const std::string name : kNames) {
      if (!eligible(name, Collective::AllReduce, ranks, 0)) continue;
      for (const auto& [wire, makeEndpoint] : wires(ranks)) {
        auto members = communicator::makeLocal(ranks, {.deterministic = true, .algorithm = name},
                                               makeEndpoint);
        runRanks(members, [&, wire = wire](Communicator& c) {
          Buffers at(c, kLarge * sizeof(float), name == "mapped");
          auto* send = reinterpret_cast<float*>(at.send);
          for (size_t i = 0; i < kLarge; ++i) send[i] = value(c.rank(), i);
          c.allReduce(
              {.send = at.send, .recv = at.recv, .count = kLarge, .type = DataType::Float32});
          EXPECT_EQ(0, std::memcmp(at.recv, expected.data(), kLarge * sizeof(float)))
              << "all_reduce by '" << name << "' over " << wire << ", rank " << c.rank() << " of "
              << ranks << ", seed " << testSeed();
        });
      }
    }
  }
}

}  // namespace
}  // namespace tutti::tests
