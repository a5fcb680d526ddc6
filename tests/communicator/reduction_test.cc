// Reductions of the caller's own: by every algorithm, in deterministic mode the tree, and refused
// where ranks do not mean the same one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>

#include <tutti/tutti.h>

#include "src/base/integers.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

template <class T, class Combine>
Reduction reductionOf(const char* name, DataType type, Combine combine) {
  return {name, type, [combine](const void* in, void* inout, size_t count) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(in) % 64, 0u);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(inout) % 64, 0u);
            const T* a = static_cast<const T*>(in);
            T* b = static_cast<T*>(inout);
            for (size_t i = 0; i < count; ++i) b[i] = combine(a[i], b[i]);
          }};
}
const Reduction kGcd = reductionOf<int32_t>("gcd", DataType::Int32,
                                            [](int32_t a, int32_t b) { return std::gcd(a, b); });

/// Rank `rank`'s element `i`: with many common divisors.
int32_t element(int rank, size_t i) {
  static const uint64_t seed = testSeed();
  const uint64_t random = base::mixBits(seed + i);
  int32_t value = 1, bit = 0;
  for (const int32_t prime : {2, 3, 5, 7, 11})
    if (random >> bit++ & 1) value *= prime;
  return value *
         static_cast<int32_t>(1 + base::mixBits(random + static_cast<uint64_t>(rank) + 1) % 1000);
}
int32_t gcdOf(int ranks, size_t i) {
  int32_t all = 0;
  for (int r = 0; r < ranks; ++r) all = std::gcd(all, element(r, i));
  return all;
}

class Algorithms : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Algorithms, ReduceByTheCallersFunction) {
  const auto [algorithm, size] = GetParam();
  auto ranks = Communicator::createLocal(size, {.algorithm = algorithm});
  runRanks(ranks, [algorithm = algorithm](Communicator& c) {
    const auto n = static_cast<size_t>(c.size()), me = static_cast<size_t>(c.rank());
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{20011}})
      for (const bool inPlace : {false, true}) {
        Memory window = c.allocate(2 * n * count * 4);
        std::vector<int32_t> ordinary(2 * n * count);
        int32_t* in = std::string(algorithm) == "mapped" ? window.as<int32_t>() : ordinary.data();
        int32_t* out = inPlace ? in : in + n * count;
        const auto fill = [&] {
          for (size_t i = 0; i < n * count; ++i) in[i] = element(c.rank(), i);
        };
        const auto expect = [&](const char* what, const int32_t* got, int upTo, size_t first) {
          for (size_t i = 0; i < count; i += 1 + i / 50)
            ASSERT_EQ(got[i], gcdOf(upTo, first + i))
                << what << " by " << algorithm << ", rank " << me << " of " << n << ", element "
                << i << " of " << count << (inPlace ? ", in place" : "") << ", seed " << testSeed();
        };
        fill();
        c.allReduce(
            {.send = in, .recv = out, .count = count, .type = DataType::Int32, .reduction = kGcd});
        expect("all_reduce", out, c.size(), 0);
        fill();
        c.reduce({.send = in,
                  .recv = out,
                  .count = count,
                  .type = DataType::Int32,
                  .root = c.size() - 1,
                  .reduction = kGcd});
        if (c.rank() == c.size() - 1) expect("reduce", out, c.size(), 0);
        fill();
        c.scan(
            {.send = in, .recv = out, .count = count, .type = DataType::Int32, .reduction = kGcd});
        expect("scan", out, c.rank() + 1, 0);
        fill();
        int32_t* block = inPlace ? in + me * count : out;
        c.reduceScatter({.send = in,
                         .recv = block,
                         .count = count,
                         .type = DataType::Int32,
                         .reduction = kGcd});
        expect("reduce_scatter", block, c.size(), me * count);
        fill();
        const std::vector<size_t> counts(n, count);
        c.reduceScatterV({.send = in,
                          .recv = block,
                          .counts = counts,
                          .type = DataType::Int32,
                          .reduction = kGcd});
        expect("uneven reduce_scatter", block, c.size(), me * count);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Forced, Algorithms,
                         testing::Combine(testing::Values("", "ring", "double_tree", "recursive",
                                                          "one_shot", "two_shot", "mapped"),
                                          testing::Values(1, 2, 3, 5)));

// The caller's own sum gives the bits of the library's: the aligned tree over ranks.
TEST(Reductions, InDeterministicModeAreTheTree) {
  const Reduction sum =
      reductionOf<float>("sum", DataType::Float32, [](float a, float b) { return a + b; });
  for (const int size : {2, 3, 5, 8})
    for (const char* algorithm : {"", "recursive", "one_shot", "two_shot"}) {
      auto ranks = Communicator::createLocal(size, {.deterministic = true, .algorithm = algorithm});
      runRanks(ranks, [&](Communicator& c) {
        std::mt19937_64 random(testSeed() + static_cast<uint64_t>(c.rank()));
        std::vector<float> x(3001), own(x.size()), theirs(x.size());
        for (float& value : x) value = static_cast<float>(random() % 1000003) * 1.7e-3f;
        c.allReduce({.send = x.data(), .recv = own.data(), .count = x.size(), .reduction = sum});
        c.allReduce({.send = x.data(), .recv = theirs.data(), .count = x.size()});
        EXPECT_EQ(own == theirs, true) << algorithm << ", rank " << c.rank() << " of " << size;
        c.scan({.send = x.data(), .recv = own.data(), .count = x.size(), .reduction = sum});
        c.scan({.send = x.data(), .recv = theirs.data(), .count = x.size()});
        EXPECT_EQ(own == theirs, true) << "scan, rank " << c.rank() << " of " << size;
      });
    }
}

TEST(Reductions, OfOtherNamesAreAMismatch) {
  const Reduction lcm = reductionOf<int32_t>("lcm", DataType::Int32,
                                             [](int32_t a, int32_t b) { return std::lcm(a, b); });
  for (const bool builtIn : {false, true}) {
    auto ranks = Communicator::createLocal(3, {.timeout = std::chrono::seconds(20)});
    runRanks(ranks, [&](Communicator& c) {
      int32_t x = 6;
      const Outcome outcome = outcomeOf([&] {
        AllReduceArgs args{.send = &x, .recv = &x, .count = 1, .type = DataType::Int32};
        args.reduction = c.rank() != 1 ? kGcd : builtIn ? Reduction() : lcm;
        c.allReduce(args);
        c.barrier();
      });
      EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
      EXPECT_NE(outcome.text.find("reduction gcd"), std::string::npos) << outcome.text;
      EXPECT_NE(outcome.text.find(builtIn ? ", sum" : "reduction lcm"), std::string::npos)
          << outcome.text;
    });
  }
}

/// Of three ranks rank 1's reduction throws, and the others' do not: all say who, in which call.
void expectThrown(const std::function<void()>& raise, ErrorCode code, const std::string& text) {
  auto ranks = Communicator::createLocal(3, {.timeout = std::chrono::seconds(20)});
  runRanks(ranks, [&](Communicator& c) {
    const int rank = c.rank();
    const Reduction faulty("faulty", DataType::Int32, [&, rank](const void*, void*, size_t) {
      if (rank == 1) raise();
    });
    std::vector<int32_t> x(6, 6);
    const Outcome outcome = outcomeOf([&] {
      c.allReduce({.send = x.data(),
                   .recv = x.data(),
                   .count = x.size(),
                   .type = DataType::Int32,
                   .reduction = faulty});
      c.barrier();
    });
    EXPECT_EQ(outcome.code, code) << outcome.text;
    for (const std::string& part : {std::string("rank 1 ("), std::string("operation 1, all_reduce"),
                                    std::string("reduction faulty"), text})
      EXPECT_NE(outcome.text.find(part), std::string::npos) << part << ": " << outcome.text;
    EXPECT_EQ(outcome.text.find("reported by rank 1") == std::string::npos, rank == 1)
        << outcome.text;
  });
}

TEST(Reductions, ThatThrowFailTheCommunicatorByTheCallersError) {
  expectThrown([] { throw std::runtime_error("on purpose"); }, ErrorCode::InvalidArgument,
               "the reduction faulty threw: on purpose");
  expectThrown([] { throw Error(ErrorCode::Internal, "on purpose"); }, ErrorCode::InvalidArgument,
               "the reduction faulty threw: on purpose");
  expectThrown([] { throw 42; }, ErrorCode::InvalidArgument,
               "the reduction faulty threw what is no std::exception");
  expectThrown([] { throw std::bad_alloc(); }, ErrorCode::OutOfMemory, "bad_alloc");
}

// It would wait for the call that it is part of; also where a call of another communicator, which
// it may make, lies between. By one_shot each rank combines once.
TEST(Reductions, MayNotCallTheirOwnCommunicator) {
  const CommunicatorOptions options{.timeout = std::chrono::seconds(20), .algorithm = "one_shot"};
  auto ranks = Communicator::createLocal(2, options),
       others = Communicator::createLocal(2, options);
  const auto reduceBy = [](Communicator& c, const Reduction::Function& function) {
    int32_t x = 6;
    c.allReduce({.send = &x,
                 .recv = &x,
                 .count = 1,
                 .type = DataType::Int32,
                 .reduction = Reduction("nested", DataType::Int32, function)});
  };
  runRanks(ranks, [&](Communicator& c) {
    Communicator& other = others[static_cast<size_t>(c.rank())];
    std::vector<Outcome> refused;
    const auto tryOwn = [&](const void*, void*, size_t) {
      refused.push_back(outcomeOf([&] { c.barrier(); }));
      refused.push_back(outcomeOf([&] { c.shrink(); }));
      refused.push_back(outcomeOf([&] { c.growId(); }));
      refused.push_back(outcomeOf([&] { c.grow({.size = 9}); }));
    };
    reduceBy(c, [&](const void* in, void* inout, size_t count) {
      tryOwn(in, inout, count);
      reduceBy(other, tryOwn);
    });
    EXPECT_EQ(refused.size(), 8u);
    for (const Outcome& outcome : refused) {
      EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
      EXPECT_NE(outcome.text.find("calls the communicator whose operation it is part of"),
                std::string::npos)
          << outcome.text;
    }
    c.barrier();  // when it has ended
    other.barrier();
  });
}

TEST(Reductions, RefuseWhatCannotBeRight) {
  const auto nothing = [](const void*, void*, size_t) {};
  for (const char* name : {"", "a name with spaces", "seventeen_letters", "umlaut\xc3\xa4"})
    EXPECT_EQ(outcomeOf([&] { Reduction(name, DataType::Int32, nothing); }).code,
              ErrorCode::InvalidArgument)
        << name;
  EXPECT_EQ(outcomeOf([&] { Reduction("none", DataType::Int32, nullptr); }).code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(outcomeOf([&] { Reduction("type", DataType{77}, nothing); }).code,
            ErrorCode::InvalidArgument);
  EXPECT_NO_THROW(Reduction("sixteen_letters_", DataType::Int32, nothing));
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    float x = 1;
    const Outcome outcome =
        outcomeOf([&] { c.allReduce({.send = &x, .recv = &x, .count = 1, .reduction = kGcd}); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
    EXPECT_NE(outcome.text.find("the reduction gcd is of int32, not of float32"), std::string::npos)
        << outcome.text;
    c.barrier();
  });
}

}  // namespace
}  // namespace tutti::tests
