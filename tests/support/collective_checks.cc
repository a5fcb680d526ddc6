#include "tests/support/collective_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/device/cuda.h"
#include "src/numbers/fill.h"

namespace tutti::tests {
namespace {

constexpr std::byte kCanary{0xa5};

bool isOnGpu(const Communicator& c) { return c.device().kind != DeviceKind::Host; }

// A buffer at an odd address with canaries around it: in a window, which may be memory of a GPU, or
// in ordinary memory.
class Guarded {
 public:
  Guarded(const Communicator& c, size_t bytes, size_t misalign = 0, Memory* window = nullptr)
      : bytes_(bytes),
        offset_(64 + misalign),
        gpu_(isOnGpu(c) && window ? window->as<std::byte>() : nullptr),
        own_(window && !gpu_ ? 0 : bytes + 192) {
    storage_ = own_.empty() ? std::span(window->as<std::byte>(), bytes + 192) : std::span(own_);
    if (window && window->bytes() < bytes + 192) throw std::length_error("a window is too small");
    std::fill(storage_.begin(), storage_.end(), kCanary);
    upload();
  }
  Guarded(const Communicator& c, const std::vector<std::byte>& content, size_t misalign,
          Memory* window = nullptr)
      : Guarded(c, content.size(), misalign, window) {
    put(content, 0);
  }
  /// Where a collective finds it.
  std::byte* data() { return (gpu_ ? gpu_ : storage_.data()) + offset_; }
  void put(const std::vector<std::byte>& content, size_t at) {
    std::copy(content.begin(), content.end(), storage_.data() + offset_ + at);
    upload();
  }
  bool holds(const std::vector<std::byte>& expected, size_t at = 0) {
    download();
    return std::equal(expected.begin(), expected.end(), storage_.data() + offset_ + at);
  }
  bool intact() {
    download();
    for (size_t i = 0; i < storage_.size(); ++i)
      if ((i < offset_ || i >= offset_ + bytes_) && storage_[i] != kCanary) return false;
    return true;
  }

 private:
  void upload() {
    if (gpu_) device::copyMemory(gpu_, storage_.data(), storage_.size());
  }
  void download() {
    if (gpu_) device::copyMemory(storage_.data(), gpu_, storage_.size());
  }
  size_t bytes_, offset_;
  std::byte* gpu_;  // whose content storage_ is a copy of
  std::vector<std::byte> own_;
  std::span<std::byte> storage_;
};

std::string describe(const char* name, const Communicator& c, const Case& t) {
  return std::string(name) + " rank " + std::to_string(c.rank()) + "/" + std::to_string(c.size()) +
         " " + toString(t.type) + " " + toString(t.op) + " count " + std::to_string(t.count) +
         " root " + std::to_string(t.root) + (t.inPlace ? " in place" : "") + " misaligned by " +
         std::to_string(t.misalign) + (t.windows ? " in windows" : "");
}

/// What the collectives of `t` are to work on: every rank's input differs from the others'.
numbers::FillPattern patternOf(const Communicator& c, const Case& t) {
  return {.type = t.type, .op = t.op, .seed = t.count, .ranks = c.size()};
}
std::vector<std::byte> inputOf(const Communicator& c, const Case& t, int rank, size_t count,
                               size_t from = 0) {
  std::vector<std::byte> bytes(count * sizeOf(t.type));
  numbers::fillInput(patternOf(c, t), rank, from, count, bytes.data());
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

}  // namespace

Windows::Windows(Communicator& c, size_t bytes)
    : in(isOnGpu(c) ? allocateOn(c.device(), bytes) : c.allocate(bytes)),
      out(isOnGpu(c) ? allocateOn(c.device(), bytes) : c.allocate(bytes)) {}

void checkAllReduce(Communicator& c, const Case& t) {
  Guarded in(c, inputOf(c, t, c.rank(), t.count), t.misalign, t.in()),
      out(c, t.count * sizeOf(t.type), t.misalign, t.out());
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
  Guarded in(c, inputOf(c, t, c.rank(), t.count), t.misalign, t.in()),
      out(c, t.count * sizeOf(t.type), t.misalign, t.out());
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
  Guarded in(c, inputOf(c, t, c.rank(), t.count), t.misalign, t.in()),
      out(c, t.count * sizeOf(t.type), t.misalign, t.out());
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
  Guarded in(c, inputOf(c, t, c.rank(), t.count), t.misalign, t.in()),
      out(c, block * c.size(), t.misalign, t.out());
  std::byte* send = in.data();
  if (t.inPlace) {
    send = out.data() + block * c.rank();
    out.put(inputOf(c, t, c.rank(), t.count), block * c.rank());
  }
  c.allGather({.send = send, .recv = out.data(), .count = t.count, .type = t.type});
  for (int r = 0; r < c.size(); ++r)
    EXPECT_TRUE(out.holds(inputOf(c, t, r, t.count), block * r))
        << describe("all_gather", c, t) << " block " << r;
  EXPECT_TRUE(in.intact() && out.intact()) << describe("all_gather", c, t);
}

void checkReduceScatter(Communicator& c, const Case& t) {
  const size_t block = t.count * sizeOf(t.type), all = t.count * c.size();
  Guarded in(c, inputOf(c, t, c.rank(), all), t.misalign, t.in()),
      out(c, block, t.misalign, t.out());
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

void checkGather(Communicator& c, const Case& t) {
  const size_t block = t.count * sizeOf(t.type);
  const bool atRoot = c.rank() == t.root;
  Guarded in(c, inputOf(c, t, c.rank(), t.count), t.misalign, t.in()),
      out(c, block * c.size(), t.misalign, t.out());
  std::byte* send = in.data();
  if (t.inPlace && atRoot) {
    send = out.data() + block * c.rank();
    out.put(inputOf(c, t, c.rank(), t.count), block * c.rank());
  }
  c.gather({.send = send,
            .recv = atRoot ? out.data() : nullptr,
            .count = t.count,
            .type = t.type,
            .root = t.root});
  for (int r = 0; r < c.size() && atRoot; ++r)
    EXPECT_TRUE(out.holds(inputOf(c, t, r, t.count), block * r))
        << describe("gather", c, t) << " block " << r;
  EXPECT_TRUE(in.intact() && out.intact()) << describe("gather", c, t);
}

void checkScatter(Communicator& c, const Case& t) {
  const size_t block = t.count * sizeOf(t.type), all = t.count * c.size();
  const bool atRoot = c.rank() == t.root;
  const auto input = inputOf(c, t, c.rank(), atRoot ? all : 0);
  Guarded in(c, input, t.misalign, t.in()), out(c, block, t.misalign, t.out());
  const size_t place = t.inPlace && atRoot ? block * c.rank() : 0;
  c.scatter({.send = atRoot ? in.data() : nullptr,
             .recv = t.inPlace && atRoot ? in.data() + place : out.data(),
             .count = t.count,
             .type = t.type,
             .root = t.root});
  const auto expected = inputOf(c, t, t.root, t.count, t.count * c.rank());
  EXPECT_TRUE(t.inPlace && atRoot ? in.holds(expected, place) : out.holds(expected))
      << describe("scatter", c, t);
  EXPECT_TRUE(!atRoot || in.holds(input)) << describe("scatter changed its input:", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("scatter", c, t);
}

void checkAllToAll(Communicator& c, const Case& t) {
  const size_t block = t.count * sizeOf(t.type), all = t.count * c.size();
  const auto input = inputOf(c, t, c.rank(), all);
  Guarded in(c, input, t.misalign, t.in()), out(c, block * c.size(), t.misalign, t.out());
  c.allToAll({.send = in.data(),
              .recv = t.inPlace ? in.data() : out.data(),
              .count = t.count,
              .type = t.type});
  for (int r = 0; r < c.size(); ++r) {
    const auto expected = inputOf(c, t, r, t.count, t.count * c.rank());
    EXPECT_TRUE((t.inPlace ? in : out).holds(expected, block * r))
        << describe("alltoall", c, t) << " block " << r;
  }
  EXPECT_TRUE(t.inPlace || in.holds(input)) << describe("alltoall changed its input:", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("alltoall", c, t);
}

void checkScan(Communicator& c, const Case& t) {
  Guarded in(c, inputOf(c, t, c.rank(), t.count), t.misalign, t.in()),
      out(c, t.count * sizeOf(t.type), t.misalign, t.out());
  c.scan({.send = in.data(),
          .recv = t.inPlace ? in.data() : out.data(),
          .count = t.count,
          .type = t.type,
          .op = t.op,
          .scalar = scalarOf(c, t)});
  numbers::FillPattern upToHere = patternOf(c, t);
  upToHere.addends = c.rank() + 1;
  std::vector<std::byte> expected(t.count * sizeOf(t.type));
  numbers::fillExpected(upToHere, 0, t.count, expected.data());
  EXPECT_TRUE((t.inPlace ? in : out).holds(expected)) << describe("scan", c, t);
  EXPECT_TRUE(in.intact() && out.intact()) << describe("scan", c, t);
}

void checkAll(Communicator& c, const Case& t) {
  checkAllReduce(c, t);
  checkReduceScatter(c, t);
  checkReduce(c, t);
  if (t.op != ReduceOp::Avg) checkScan(c, t);
  if (t.op == ReduceOp::Sum) {
    checkAllGather(c, t);
    checkBroadcast(c, t);
    checkGather(c, t);
    checkScatter(c, t);
    checkAllToAll(c, t);
  }
  c.barrier();
}

namespace {

// Element i of rank r's input in turn t, of what is reduced.
int termOf(int rank, size_t i, int turn = 0) {
  return (static_cast<int>(i % 97) + 1) * (6 + 6 * rank) + turn;
}
std::vector<int> termsOf(int rank, size_t count, int turn = 0) {
  std::vector<int> terms(count);
  for (size_t i = 0; i < count; ++i) terms[i] = termOf(rank, i, turn);
  return terms;
}
int sumOf(int ranks, size_t i, int turn = 0) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) sum += termOf(r, i, turn);
  return sum;
}

void checkReduceScatterV(Communicator& c) {
  const auto n = static_cast<size_t>(c.size()), me = static_cast<size_t>(c.rank());
  std::vector<size_t> counts(n);
  for (size_t r = 0; r < n; ++r) counts[r] = 777 * r;
  const size_t own = 777 * (me * me - me) / 2, all = 777 * (n * n - n) / 2;
  const std::vector<int> in = termsOf(c.rank(), all);
  std::vector<int> out(counts[me] + 1, -1);  // with an element that nobody may touch
  c.reduceScatterV(
      {.send = in.data(), .recv = out.data(), .counts = counts, .type = DataType::Int32});
  for (size_t i = 0; i < counts[me]; ++i)
    ASSERT_EQ(out[i], sumOf(c.size(), own + i)) << "element " << i << " of rank " << me;
  EXPECT_EQ(out.back(), -1) << "behind the block of rank " << me;
}

/// One that no ReduceOp is.
void checkOwnReduction(Communicator& c) {
  constexpr size_t kCount = 20'000;
  const Reduction gcd("gcd", DataType::Int32, [](const void* in, void* inout, size_t count) {
    const int* const from = static_cast<const int*>(in);
    int* const to = static_cast<int*>(inout);
    for (size_t i = 0; i < count; ++i) to[i] = std::gcd(from[i], to[i]);
  });
  const std::vector<int> in = termsOf(c.rank(), kCount);
  std::vector<int> reduced(kCount, -1), scanned(kCount, -1);
  c.allReduce({.send = in.data(),
               .recv = reduced.data(),
               .count = kCount,
               .type = DataType::Int32,
               .reduction = gcd});
  c.scan({.send = in.data(),
          .recv = scanned.data(),
          .count = kCount,
          .type = DataType::Int32,
          .reduction = gcd});
  for (size_t i = 0; i < kCount; ++i) {
    int expected = 0, upToHere = 0;
    for (int r = 0; r < c.size(); ++r) {
      expected = std::gcd(expected, termOf(r, i));
      if (r == c.rank()) upToHere = expected;
    }
    ASSERT_EQ(reduced[i], expected) << "all_reduce by gcd, element " << i;
    ASSERT_EQ(scanned[i], upToHere) << "scan by gcd, element " << i;
  }
}

/// Again and again, on data that change.
void checkPreparedCalls(Communicator& c) {
  constexpr size_t kCount = 20'000;
  const auto n = static_cast<size_t>(c.size());
  std::vector<int> in(kCount), sums(kCount), all(n * kCount), sent(n), turned(n);
  const std::vector<size_t> ones(n, 1), counts(n, kCount);
  PreparedCall reduce = c.prepare(AllReduceArgs{
      .send = in.data(), .recv = sums.data(), .count = kCount, .type = DataType::Int32});
  PreparedCall gather = c.prepare(AllGatherVArgs{
      .send = in.data(), .recv = all.data(), .counts = counts, .type = DataType::Int32});
  PreparedCall turn = c.prepare(AllToAllVArgs{.send = sent.data(),
                                              .sendCounts = ones,
                                              .recv = turned.data(),
                                              .recvCounts = ones,
                                              .type = DataType::Int32});
  for (int t = 0; t < 3; ++t) {
    std::ranges::copy(termsOf(c.rank(), kCount, t), in.begin());
    for (size_t peer = 0; peer < n; ++peer) sent[peer] = termOf(c.rank(), peer, t);
    for (PreparedCall* call : {&reduce, &gather, &turn}) call->start();
    for (size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(sums[i], sumOf(c.size(), i, t)) << "turn " << t << ", element " << i;
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], termOf(static_cast<int>(i / kCount), i % kCount, t)) << "turn " << t;
    for (size_t r = 0; r < n; ++r)
      ASSERT_EQ(turned[r], termOf(static_cast<int>(r), static_cast<size_t>(c.rank()), t))
          << "turn " << t;
  }
}

}  // namespace

void checkExchanges(Communicator& c) {
  const auto n = static_cast<size_t>(c.size()), me = static_cast<size_t>(c.rank());
  // Block (from, to) has 1000 * from + to elements, all of that value.
  std::vector<size_t> sends(n), receives(n);
  size_t out = 0, in = 0;
  for (size_t peer = 0; peer < n; ++peer) {
    out += sends[peer] = 1000 * me + peer;
    in += receives[peer] = 1000 * peer + me;
  }
  std::vector<int> data(out), got(in, -1);
  for (size_t peer = 0, at = 0; peer < n; at += sends[peer++])
    std::fill_n(data.begin() + static_cast<ptrdiff_t>(at), sends[peer],
                static_cast<int>(sends[peer]));
  c.allToAllV({.send = data.data(),
               .sendCounts = sends,
               .recv = got.data(),
               .recvCounts = receives,
               .type = DataType::Int32});
  for (size_t peer = 0, at = 0; peer < n; at += receives[peer++])
    for (size_t i = 0; i < receives[peer]; ++i)
      ASSERT_EQ(got[at + i], static_cast<int>(receives[peer])) << "from " << peer;
  // Everybody's block to everybody, by its rank's size.
  std::vector<size_t> counts(n);
  size_t all = 0;
  for (size_t r = 0; r < n; ++r) all += counts[r] = 777 * r;
  const std::vector<int> own(counts[me], c.rank());
  std::vector<int> gathered(all, -1);
  c.allGatherV(
      {.send = own.data(), .recv = gathered.data(), .counts = counts, .type = DataType::Int32});
  for (size_t r = 0, at = 0; r < n; at += counts[r++])
    for (size_t i = 0; i < counts[r]; ++i)
      ASSERT_EQ(gathered[at + i], static_cast<int>(r)) << "block " << r;
  // A ring of sends and receives.
  int token = c.rank(), received = -1;
  {
    Group group;
    c.send(
        {.send = &token, .count = 1, .type = DataType::Int32, .peer = (c.rank() + 1) % c.size()});
    c.receive({.recv = &received,
               .count = 1,
               .type = DataType::Int32,
               .peer = (c.rank() + c.size() - 1) % c.size()});
    group.end();
  }
  EXPECT_EQ(received, (c.rank() + c.size() - 1) % c.size());
  checkReduceScatterV(c);
  checkOwnReduction(c);
  checkPreparedCalls(c);
}

}  // namespace tutti::tests
