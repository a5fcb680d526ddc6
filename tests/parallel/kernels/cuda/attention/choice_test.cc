// Which kernels compute attention, for GPUs that no machine here has: functions of numbers alone.

#include <gtest/gtest.h>

#include "parallel/kernels/cuda/attention/arguments.h"
#include "parallel/kernels/cuda/attention/attentions.h"
#include "parallel/kernels/cuda/attention/choice.h"
#include "tests/parallel/kernels/cuda/captured.h"

namespace tutti::parallel::cuda {
namespace {

constexpr auto kReference = AttentionFamily::Reference, kMma = AttentionFamily::Mma,
               kWgmma = AttentionFamily::Wgmma, kPersistent = AttentionFamily::Persistent,
               kOnePass = AttentionFamily::OnePass, kTall = AttentionFamily::Tall;

HeadRows rowsOf(ElementFormat format, uintptr_t address = 4096, int64_t stride = 1024) {
  return {{reinterpret_cast<void*>(address), format}, 64 * stride, stride};
}

AttentionForward attention(const HeadRows& query, int32_t headWidth = 64) {
  const HeadRows key = rowsOf(ElementFormat::BFloat16);
  return {.sizes = {.batch = 2,
                    .heads = 4,
                    .kvHeads = 2,
                    .headWidth = headWidth,
                    .queries = 30,
                    .keys = 40,
                    .firstQuery = 0,
                    .firstKey = 0,
                    .scale = 1,
                    .reach = {}},
          .query = query,
          .key = key,
          .value = key,
          .out = rowsOf(ElementFormat::Float32),
          .logSumExp = {}};
}

TEST(AttentionChoice, IsOfTheGpu) {
  for (const AttentionFamily most : {kReference, kMma, kWgmma, kPersistent, kOnePass, kTall}) {
    EXPECT_EQ(attentionOfGpu(75, most), kReference);
    EXPECT_EQ(attentionOfGpu(90, most), most);
    for (const int capability : {80, 86, 89, 100, 103, 120})
      EXPECT_EQ(attentionOfGpu(capability, most), most == kReference ? kReference : kMma)
          << capability;
  }
}

TEST(AttentionChoice, IsOfTheOperands) {
  const AttentionForward usual = attention(rowsOf(ElementFormat::BFloat16));
  for (const AttentionFamily most : {kReference, kMma, kWgmma, kPersistent, kOnePass, kTall})
    EXPECT_EQ(attentionOf(usual, most), most);
  for (const int32_t width : {64, 80, 96, 128})
    EXPECT_EQ(attentionOf(attention(usual.query, width), kWgmma), kWgmma);
  for (const int32_t width : {32, 72, 112, 256})
    EXPECT_EQ(attentionOf(attention(usual.query, width), kWgmma), kReference);
  for (const HeadRows& query :
       {rowsOf(ElementFormat::Float16), rowsOf(ElementFormat::Float32),
        rowsOf(ElementFormat::BFloat16, 4104), rowsOf(ElementFormat::BFloat16, 4096, 1028)})
    EXPECT_EQ(attentionOf(attention(query), kWgmma), kReference);
  AttentionForward results = usual;
  results.out = rowsOf(ElementFormat::Float32, 4104);
  EXPECT_EQ(attentionOf(results, kWgmma), kReference);
}

// A map describes at least one element, and rows that are apart.
TEST(AttentionChoice, TakesNoTmaOfNothing) {
  AttentionForward x = attention(rowsOf(ElementFormat::BFloat16));
  x.sizes.keys = 0;
  EXPECT_EQ(attentionOf(x, kWgmma), kMma);
  x = attention(rowsOf(ElementFormat::BFloat16));
  x.sizes.queries = 0;
  EXPECT_EQ(attentionOf(x, kWgmma), kMma);
  x = attention(rowsOf(ElementFormat::BFloat16));
  x.value.batchStride = 0;
  EXPECT_EQ(attentionOf(x, kWgmma), kMma);
  x = attention(rowsOf(ElementFormat::BFloat16));
  x.key.batchStride += 8;  // no number of rows
  EXPECT_EQ(attentionOf(x, kWgmma), kMma);
}

AttentionBackward backward(const AttentionForward& x) {
  AttentionBackward d{};
  d.sizes = x.sizes;
  d.dOut = d.query = x.query, d.key = x.key, d.value = x.value;
  d.dQuery = d.dKey = d.dValue = rowsOf(ElementFormat::Float32);
  return d;
}

// Each gradient by itself: stores of a row are words.
TEST(AttentionChoice, IsOfTheOperandsOfBackward) {
  const AttentionBackward usual = backward(attention(rowsOf(ElementFormat::BFloat16)));
  for (const AttentionFamily most : {kReference, kMma, kWgmma, kPersistent, kOnePass, kTall})
    EXPECT_EQ(attentionOf(usual, most), most);
  for (HeadRows AttentionBackward::*const gradient :
       {&AttentionBackward::dQuery, &AttentionBackward::dKey, &AttentionBackward::dValue})
    for (const HeadRows& rows :
         {rowsOf(ElementFormat::Float32, 4104), rowsOf(ElementFormat::Float32, 4096, 1026)}) {
      AttentionBackward x = usual;
      x.*gradient = rows;
      EXPECT_EQ(attentionOf(x, kWgmma), kReference);
    }
  for (HeadRows AttentionBackward::*const factor :
       {&AttentionBackward::dOut, &AttentionBackward::query, &AttentionBackward::key,
        &AttentionBackward::value}) {
    AttentionBackward x = usual;
    x.*factor = rowsOf(ElementFormat::BFloat16, 4104);
    EXPECT_EQ(attentionOf(x, kWgmma), kReference);
  }
}

// Families that stay have as many blocks as there are multiprocessors, others one for each tile.
TEST(AttentionLaunches, HaveTheBlocksOfTheirFamily) {
  constexpr int32_t kProcessors = 3;
  for (const auto load : {loadWgmmaForward, loadWgmmaGradients, loadOnePass})
    emulation::check(load());
  const emulation::DeviceArray<char> memory(size_t{1} << 22);
  AttentionForward x =
      attention(rowsOf(ElementFormat::BFloat16, reinterpret_cast<uintptr_t>(memory.get())));
  x.key = x.value = x.out = x.query;
  x.sizes.queries = x.sizes.keys = 400;
  x.query.batchStride = x.key.batchStride = x.value.batchStride = x.out.batchStride = 400 * 1024;
  AttentionBackward d = backward(x);
  d.dOut = x.query;
  d.scratch = reinterpret_cast<float*>(memory.get());
  const auto blocks = [&](AttentionFamily family, const auto& call) {
    Attentions attentions(family, kProcessors);
    return tests::kernelsOf(
               [&](cudaStream_t stream) { return attentions.enqueue(call, false, stream); })
        .at(0)
        .blocks;
  };
  EXPECT_EQ(blocks(kWgmma, x), 2 * 4 * 4);
  EXPECT_EQ(blocks(kWgmma, d), 2 * 4 * 4);
  for (const AttentionFamily family : {kPersistent, kOnePass, kTall}) {
    EXPECT_EQ(blocks(family, x), kProcessors);
    EXPECT_EQ(blocks(family, d), kProcessors);
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
