// Which kernels the calls of attention take, and what the calls add to them: that of whole
// sequences, blocks that merge, windows and documents as the host has them.

#include <gtest/gtest.h>

#include <tutti/device.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/kernels/cuda/attention/choice.h"
#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {
namespace {

constexpr DType kBrain = DType::BFloat16, kHalf = DType::Float16, kFloat = DType::Float32,
                kDouble = DType::Float64;

class AttentionCalls : public testing::Test {
 protected:
  std::unique_ptr<CudaKernels> forced(const char* family) {
    setenv("TUTTI_ATTENTION", family, 1);
    auto kernels = std::make_unique<CudaKernels>(stream_);
    unsetenv("TUTTI_ATTENTION");
    return kernels;
  }
  Tensor make(DType type, const Shape& shape) {
    memory_.push_back(allocatePinned(byteCount(type, shape)));
    std::memset(memory_.back().data(), 0xff, memory_.back().bytes());  // NaN
    return {memory_.back().data(), type, shape};
  }
  Tensor random(DType type, const Shape& shape) {
    const Tensor wide = make(kDouble, shape), x = make(type, shape);
    const Random values(3, "operand");
    for (int64_t i = 0; i < wide.count(); ++i) wide.as<double>()[i] = values.normal(next_++);
    host_.copy(wide, x);
    return x;
  }
  static bool areSame(const Tensor& a, const Tensor& b) {
    return std::memcmp(a.data, b.data, a.bytes()) == 0;
  }
  double distance(const Tensor& a, const Tensor& b) {
    const Tensor x = make(kDouble, a.shape), y = make(kDouble, b.shape);
    host_.copy(a, x);
    host_.copy(b, y);
    double most = 0;
    for (int64_t i = 0; i < x.count(); ++i)
      most = std::fmax(most, std::fabs(x.as<double>()[i] - y.as<double>()[i]));
    return most;
  }

  struct Given {
    int64_t heads, kvHeads;
    Tensor qkv, dOut;
    AttentionReach reach{};
  };
  struct Results {
    Tensor out, logSumExp, dQkv;
  };
  Given given(DType type, int64_t context, int64_t headWidth) {
    const Shape rows{2, context, 4 * headWidth}, all{2, context, 8 * headWidth};
    return {4, 2, random(type, all), random(type, rows)};
  }
  /// Forward and backward of whole sequences.
  Results compute(Kernels& kernels, const Given& x) {
    const Shape& rows = x.dOut.shape;
    const Results results{make(x.qkv.type, rows),
                          make(statisticsType(x.qkv.type), {rows[0], x.heads, rows[1]}),
                          make(x.qkv.type, x.qkv.shape)};
    kernels.attention({x.qkv, results.out, results.logSumExp, x.heads, x.kvHeads, x.reach}, arena_);
    kernels.attentionBackward(
        {x.dOut, x.qkv, results.out, results.logSumExp, results.dQkv, x.heads, x.kvHeads, x.reach},
        arena_);
    stream_.synchronize();
    return results;
  }
  AttentionReach reach(int64_t window, const std::vector<int32_t>& starts) {
    const Tensor x = make(DType::Int32, {2, static_cast<int64_t>(starts.size()) / 2});
    std::copy(starts.begin(), starts.end(), x.as<int32_t>());
    return {.window = window, .starts = x};
  }

  Stream stream_{Device{DeviceKind::Cuda, 0}};
  HostKernels host_;
  Arena arena_{"scratch"};
  std::vector<Memory> memory_;
  uint64_t next_ = 0;
};

TEST_F(AttentionCalls, TakeTensorCoresWhereOperandsAllow) {
  const auto reference = forced("reference"), mma = forced("mma"), wgmma = forced("wgmma"),
             onePass = forced("onepass"), tall = forced("tall");
  CudaKernels chosen(stream_);
  for (const DType type : {kBrain, kHalf}) {
    const Given x = given(type, 100, 64);
    const Results tiled = compute(*mma, x), wide = compute(*wgmma, x), usual = compute(chosen, x),
                  once = compute(*onePass, x), high = compute(*tall, x),
                  right = compute(*reference, x);
    EXPECT_TRUE(areSame(wide.out, usual.out) && areSame(wide.dQkv, usual.dQkv));
    EXPECT_TRUE(areSame(high.out, once.out) && areSame(high.dQkv, once.dQkv));
    EXPECT_FALSE(areSame(wide.out, tiled.out)) << "tiles have as many keys";
    // Weights are rounded to 16 bits there, so bits differ.
    const double rounding = type == kBrain ? 0x1p-8 : 0x1p-11;
    for (const Results& each : {tiled, wide, once}) {
      EXPECT_FALSE(areSame(each.out, right.out)) << toString(type);
      EXPECT_FALSE(areSame(each.dQkv, right.dQkv)) << toString(type);
      EXPECT_LT(distance(each.out, right.out), 8 * rounding);
      EXPECT_LT(distance(each.dQkv, right.dQkv), 64 * rounding);
    }
  }
  for (const Given& x : {given(kFloat, 20, 64), given(kBrain, 20, 40)}) {
    const Results usual = compute(chosen, x), right = compute(*reference, x);
    EXPECT_TRUE(areSame(usual.out, right.out) && areSame(usual.dQkv, right.dQkv)) << x.qkv;
  }
}

// Rows that begin, or are, 2 bytes from where cp.async and TMA could copy them.
TEST_F(AttentionCalls, TakeAnyAlignment) {
  const auto reference = forced("reference"), wgmma = forced("wgmma");
  const Tensor rows = random(kBrain, {1, 20, 136}), wide = random(kBrain, {1, 20, 129});
  const Tensor sums = make(kFloat, {1, 2, 20}), out = make(kBrain, {1, 20, 128}),
               again = make(kBrain, {1, 20, 128});
  for (const Tensor& query : {rows.part(2, 1, 128), wide.part(2, 0, 128)}) {
    const Tensor key = rows.part(2, 8, 128);
    wgmma->attentionBlock({query, key, key, out, sums, 2, 2, 0, 0}, arena_);
    reference->attentionBlock({query, key, key, again, sums, 2, 2, 0, 0}, arena_);
    stream_.synchronize();
    EXPECT_TRUE(areSame(out, again)) << query;
  }
}

TEST_F(AttentionCalls, RefuseAFamilyThatIsNone) {
  try {
    forced("tensor");
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
  }
  unsetenv("TUTTI_ATTENTION");
  EXPECT_EQ(cuda::attentionOfEnvironment(), cuda::AttentionFamily::Wgmma);
}

// What blocks of keys give is merged to what all keys give, also gradients, which are added up.
TEST_F(AttentionCalls, BlocksMergeToTheWhole) {
  constexpr int64_t kContext = 100, kWidth = 4 * 64, kKvWidth = 2 * 64;
  for (const auto& [family, window] :
       {std::pair{"wgmma", 0}, std::pair{"wgmma", 55}, std::pair{"onepass", 55}}) {
    const auto made = forced(family);
    CudaKernels& kernels = *made;
    Given x = given(kHalf, kContext, 64);
    x.reach.window = window;
    const Results whole = compute(kernels, x);
    const auto query = [&](const Tensor& t) { return t.part(2, 0, kWidth); };
    const auto key = [&](const Tensor& t) { return t.part(2, kWidth, kKvWidth); };
    const auto value = [&](const Tensor& t) { return t.part(2, kWidth + kKvWidth, kKvWidth); };
    const Tensor out = make(kFloat, x.dOut.shape), sums = make(kFloat, {2, 4, kContext}),
                 part = make(kFloat, x.dOut.shape), partSums = make(kFloat, {2, 4, kContext}),
                 dQkv = make(kFloat, x.qkv.shape);
    host_.fillZero(out), host_.fillZero(dQkv);
    std::fill_n(sums.as<float>(), sums.count(), -INFINITY);
    struct Piece {
      int64_t first, count;
    };
    const Piece pieces[] = {{70, 30}, {0, 37}, {37, 33}};
    for (const Piece& p : pieces) {
      const auto rows = [&](const Tensor& t) { return t.part(1, p.first, p.count); };
      kernels.attentionBlock({query(x.qkv), rows(key(x.qkv)), rows(value(x.qkv)), part, partSums, 4,
                              2, 0, p.first, x.reach},
                             arena_);
      kernels.attentionMerge({part, partSums, out, sums, 4});
    }
    for (const Piece& p : pieces) {
      const auto rows = [&](const Tensor& t) { return t.part(1, p.first, p.count); };
      kernels.attentionBlockBackward(
          {x.dOut, query(x.qkv), rows(key(x.qkv)), rows(value(x.qkv)), out, sums, query(dQkv),
           rows(key(dQkv)), rows(value(dQkv)), 4, 2, 0, p.first, x.reach},
          arena_);
    }
    stream_.synchronize();
    // Weights of both are rounded, and results of the whole.
    EXPECT_LT(distance(out, whole.out), 8 * 0x1p-11) << family << window;
    EXPECT_LT(distance(sums, whole.logSumExp), 0x1p-18) << family << window;
    EXPECT_LT(distance(dQkv, whole.dQkv), 64 * 0x1p-11) << family << window;
  }
}

// In float64, by the reference kernels.
TEST_F(AttentionCalls, ReachesAreTheHosts) {
  CudaKernels kernels(stream_);
  for (const AttentionReach& each :
       {AttentionReach{.window = 1}, AttentionReach{.window = 33},
        reach(0, {0, 1, 40, 0, 33, 1000}), reach(10, {0, 1, 40, 0, 33, 1000})}) {
    Given x = given(kDouble, 70, 6);
    x.reach = each;
    const Results gpu = compute(kernels, x), host = compute(host_, x);
    EXPECT_LT(distance(gpu.out, host.out), 0x1p-44) << each.window;
    EXPECT_LT(distance(gpu.logSumExp, host.logSumExp), 0x1p-44) << each.window;
    EXPECT_LT(distance(gpu.dQkv, host.dQkv), 0x1p-42) << each.window;
  }
}

}  // namespace
}  // namespace tutti::parallel
