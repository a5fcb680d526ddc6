// Every collective, type and reduction, over threads of this process, against results known
// exactly.

#include <gtest/gtest.h>

#include <tutti/tutti.h>

#include "collectives/algorithms.h"
#include "src/numbers/fill.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

constexpr std::byte kCanary{0xa5};

// A buffer at an odd address with canaries around it.
class Guarded {
 public:
  explicit Guarded(size_t bytes, size_t misalign = 0)
      : bytes_(bytes), offset_(64 + misalign), storage_(bytes + 192, kCanary) {}
  Guarded(const std::vector<std::byte>& content, size_t misalign)
      : Guarded(content.size(), misalign) {
    std::copy(content.begin(), content.end(), data());
  }
  std::byte* data() { return storage_.data() + offset_; }
  bool holds(const std::vector<std::byte>& expected, size_t at = 0) {
    return std::equal(expected.begin(), expected.end(), data() + at);
  }
  bool intact() const {
    for (size_t i = 0; i < storage_.size(); ++i)
      if ((i < offset_ || i >= offset_ + bytes_) && storage_[i] != kCanary) return false;
    return true;
  }

 private:
  size_t bytes_, offset_;
  std::vector<std::byte> storage_;
};

struct Case {
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  size_t count = 1000;
  int root = 0;
  bool inPlace = false;
  size_t misalign = 0;
};

std::string describe(const char* name, const Communicator& c, const Case& t) {
  return std::string(name) + " rank " + std::to_string(c.rank()) + "/" + std::to_string(c.size()) +
         " " + toString(t.type) + " " + toString(t.op) + " count " + std::to_string(t.count) +
         " root " + std::to_string(t.root) + (t.inPlace ? " in place" : "") + " misaligned by " +
         std::to_string(t.misalign);
}

/// What the collectives of `t` are to work on: every rank's input differs from the others'.
numbers::Pattern patternOf(const Communicator& c, const Case& t) {
  return {.type = t.type, .op = t.op, .seed = t.count, .ranks = c.size()};
}
std::vector<std::byte> inputOf(const Communicator& c, const Case& t, int rank, size_t count) {
  std::vector<std::byte> bytes(count * sizeOf(t.type));
  numbers::fillInput(patternOf(c, t), rank, 0, count, bytes.data());
  return bytes;
}
/// Elements `from` on of the reduction.
std::vector<std::byte> resultOf(const Communicator& c, const Case& t, size_t from = 0) {
  std::vector<std::byte> bytes(t.count * sizeOf(t.type));
  numbers::fillExpected(patternOf(c, t), from, t.count, bytes.data());
  return bytes;
}
double scalarOf(const Communicator& c, const Case& t) {
  return numbers::premulScalar(patternOf(c, t), c.rank());
}

void checkAllReduce(Communicator& c, const Case& t) {
  Guarded in(inputOf(c, t, c.rank(), t.count), t.misalign),
      out(t.count * sizeOf(t.type), t.misalign);
  std::byte* recv = t.inPlace ? in.data() : out.data();
  c.allReduce({.send = in.data(),
               .recv = recv,
               .count = t.count,
               .type = t.type,
               .op = t.op,
               .scalar = scalarOf(c, t)});
  EXPECT_TRUE((t.inPlace ? in : out).holds(resultOf(c, t))) << describe("all_reduce", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("all_reduce", c, t);
}

void checkReduce(Communicator& c, const Case& t) {
  Guarded in(inputOf(c, t, c.rank(), t.count), t.misalign),
      out(t.count * sizeOf(t.type), t.misalign);
  const bool atRoot = c.rank() == t.root;
  std::byte* recv = t.inPlace ? in.data() : atRoot ? out.data() : nullptr;
  const auto before = inputOf(c, t, c.rank(), t.count);
  c.reduce({.send = in.data(),
            .recv = recv,
            .count = t.count,
            .type = t.type,
            .op = t.op,
            .scalar = scalarOf(c, t),
            .root = t.root});
  if (atRoot)
    EXPECT_TRUE((t.inPlace ? in : out).holds(resultOf(c, t))) << describe("reduce", c, t);
  else
    EXPECT_TRUE(in.holds(before)) << describe("reduce changed an input:", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("reduce", c, t);
}

void checkBroadcast(Communicator& c, const Case& t) {
  Guarded in(inputOf(c, t, c.rank(), t.count), t.misalign),
      out(t.count * sizeOf(t.type), t.misalign);
  const bool atRoot = c.rank() == t.root;
  std::byte* recv = t.inPlace ? in.data() : out.data();
  c.broadcast({.send = atRoot ? in.data() : nullptr,
               .recv = recv,
               .count = t.count,
               .type = t.type,
               .root = t.root});
  EXPECT_TRUE((t.inPlace ? in : out).holds(inputOf(c, t, t.root, t.count)))
      << describe("broadcast", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("broadcast", c, t);
}

void checkAllGather(Communicator& c, const Case& t) {
  const size_t block = t.count * sizeOf(t.type);
  Guarded in(inputOf(c, t, c.rank(), t.count), t.misalign), out(block * c.size(), t.misalign);
  std::byte* send = in.data();
  if (t.inPlace) {
    send = out.data() + block * c.rank();
    std::copy(in.data(), in.data() + block, send);
  }
  c.allGather({.send = send, .recv = out.data(), .count = t.count, .type = t.type});
  for (int r = 0; r < c.size(); ++r)
    EXPECT_TRUE(out.holds(inputOf(c, t, r, t.count), block * r))
        << describe("all_gather", c, t) << " block " << r;
  EXPECT_TRUE(in.intact() && out.intact()) << describe("all_gather", c, t);
}

void checkReduceScatter(Communicator& c, const Case& t) {
  const size_t block = t.count * sizeOf(t.type), all = t.count * c.size();
  Guarded in(inputOf(c, t, c.rank(), all), t.misalign), out(block, t.misalign);
  std::byte* recv = t.inPlace ? in.data() + block * c.rank() : out.data();
  c.reduceScatter({.send = in.data(),
                   .recv = recv,
                   .count = t.count,
                   .type = t.type,
                   .op = t.op,
                   .scalar = scalarOf(c, t)});
  const auto expected = resultOf(c, t, t.count * c.rank());
  EXPECT_TRUE(t.inPlace ? in.holds(expected, block * c.rank()) : out.holds(expected))
      << describe("reduce_scatter", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("reduce_scatter", c, t);
}

void checkAll(Communicator& c, Case t) {
  checkAllReduce(c, t);
  checkReduceScatter(c, t);
  checkReduce(c, t);
  if (t.op == ReduceOp::Sum) {
    checkAllGather(c, t);
    checkBroadcast(c, t);
  }
  c.barrier();
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, EveryTypeAndReduction) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op)
        for (const bool inPlace : {false, true})
          checkAll(c, {.type = static_cast<DataType>(type),
                       .op = static_cast<ReduceOp>(op),
                       .count = 777,
                       .root = type % c.size(),
                       .inPlace = inPlace});
  });
}

TEST_P(Collectives, EverySizeAndAlignment) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    for (const size_t count : {0, 1, 2, 3, 7, 15, 16, 17, 255, 4096, 4097, 65536, 300001})
      for (const size_t misalign : {0, 1, 4})
        checkAll(c, {.count = count,
                     .root = static_cast<int>(count) % c.size(),
                     .inPlace = misalign == 4,
                     .misalign = misalign});
  });
}

TEST_P(Collectives, EveryRoot) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    for (int root = 0; root < c.size(); ++root)
      for (const size_t count : {1, 5000, 100000}) {
        checkBroadcast(c, {.count = count, .root = root});
        checkReduce(c, {.count = count, .root = root});
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5, 8));

class Algorithms : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Algorithms, Forced) {
  const auto [algorithm, size] = GetParam();
  auto ranks = Communicator::createLocal(size, {.algorithm = algorithm});
  runRanks(ranks, [algorithm = algorithm](Communicator& c) {
    for (const size_t count : {1, 100, 5000, 70001})
      for (const bool inPlace : {false, true}) {
        const Case t{.count = count, .root = c.size() - 1, .inPlace = inPlace};
        const auto attempt = [&](auto check, plan::Collective collective) {
          const std::string name = algorithm;
          bool exists = name == "mapped";
          for (const auto& info : collectives::registry().algorithms())
            exists |=
                name == plan::toString(info.algorithm) &&
                info.spec({collective, plan::Protocol::Simple, c.size(), t.root, 1}).has_value();
          if (exists) check(c, t);
        };
        attempt(checkAllReduce, plan::Collective::AllReduce);
        attempt(checkReduceScatter, plan::Collective::ReduceScatter);
        attempt(checkAllGather, plan::Collective::AllGather);
        attempt(checkBroadcast, plan::Collective::Broadcast);
        attempt(checkReduce, plan::Collective::Reduce);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Forced, Algorithms,
                         testing::Combine(testing::Values("ring", "double_tree", "recursive",
                                                          "one_shot", "two_shot", "mapped"),
                                          testing::Values(2, 3, 4, 5, 8)));

TEST(Arguments, AreRefusedByName) {
  auto ranks = Communicator::createLocal(1);
  Communicator& c = ranks[0];
  std::vector<float> x(16), y(16);
  const auto message = [&](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::InvalidArgument);
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message([&] {
              c.allReduce({.send = x.data(), .recv = x.data() + 1, .count = 8});
            }).find("overlap"),
            std::string::npos);
  EXPECT_NE(message([&] { c.allReduce({.recv = x.data(), .count = 8}); }).find("send is null"),
            std::string::npos);
  EXPECT_NE(message([&] { c.allReduce({.send = x.data(), .count = 8}); }).find("recv is null"),
            std::string::npos);
  EXPECT_NE(message([&] {
              c.broadcast({.send = x.data(), .recv = y.data(), .count = 8, .root = 1});
            }).find("root 1"),
            std::string::npos);
  EXPECT_NE(message([&] {
              c.allReduce({.send = x.data(), .recv = y.data(), .count = SIZE_MAX / 2});
            }).find("does not fit"),
            std::string::npos);
  EXPECT_NE(message([&] { Communicator::createLocal(0); }).find("0"), std::string::npos);
  EXPECT_NE(message([&] { Communicator::createLocal(-1); }).find("-1"), std::string::npos);
  EXPECT_NE(message([&] { Communicator::createLocal(1000000000); }).find("1000000000"),
            std::string::npos);
  EXPECT_NE(message([&] { Communicator::createLocal(1, {.algorithm = "star"}); }).find("star"),
            std::string::npos);
  c.allReduce({});  // nothing, and no pointer
}

}  // namespace
}  // namespace tutti::tests
