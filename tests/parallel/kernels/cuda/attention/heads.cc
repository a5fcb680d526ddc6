#include "tests/parallel/kernels/cuda/attention/heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace tutti::parallel::cuda {

namespace {

constexpr char kNaNs = -1;
constexpr size_t kMarginBytes = 64;

/// Relatively, and of numbers too small for that.
double roundingOf(ElementFormat format) {
  return format == ElementFormat::Float32    ? 0x1p-24
         : format == ElementFormat::BFloat16 ? 0x1p-8
                                             : 0x1p-11;
}
const char* nameOf(AttentionFamily family) {
  return family == AttentionFamily::Reference    ? "reference "
         : family == AttentionFamily::Mma        ? "mma "
         : family == AttentionFamily::Wgmma      ? "wgmma "
         : family == AttentionFamily::Persistent ? "persistent "
         : family == AttentionFamily::OnePass    ? "onepass "
                                                 : "tall ";
}
double leastOf(ElementFormat format) { return format == ElementFormat::Float16 ? 0x1p-25 : 0; }

}  // namespace

double roundedTo(ElementFormat format, double value) {
  return numberOf(bitsOf(value, format), format);
}

// Rows are aligned to 16 bytes where their columns are, and behind the last there is nothing more.
int64_t Spread::rowStride() const { return columns_ + 8; }

Spread::Spread(int64_t outer, int64_t rows, int64_t columns, ElementFormat format)
    : outer_(outer),
      rows_(rows),
      columns_(columns),
      format_(format),
      memory_(kMarginBytes +
              static_cast<size_t>(outer * outerStride() - 2 * rowStride() + columns) *
                  elementBytes()) {
  memory_.fill(kNaNs);
}

Elements Spread::elements() const { return {memory_.get() + kMarginBytes, format_}; }

size_t Spread::placeOf(size_t index) const {
  const auto columns = static_cast<size_t>(columns_), rows = static_cast<size_t>(rows_);
  const size_t row = index / columns;
  return kMarginBytes + (row / rows * static_cast<size_t>(outerStride()) +
                         row % rows * static_cast<size_t>(rowStride()) + index % columns) *
                            elementBytes();
}

void Spread::set(const std::vector<double>& values) {
  std::vector<char> all = bytes();
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = bitsOf(values[i], format_);
    std::memcpy(&all[placeOf(i)], &bits, elementBytes());
  }
  memory_.upload(all);
}

std::vector<double> Spread::get() const {
  const std::vector<char> all = bytes();
  std::vector<double> values(static_cast<size_t>(outer_ * rows_ * columns_));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &all[placeOf(i)], elementBytes());
    values[i] = numberOf(bits, format_);
  }
  return values;
}

bool Spread::areGapsKept() const {
  std::vector<char> all = bytes();
  for (size_t i = 0; i < static_cast<size_t>(outer_ * rows_ * columns_); ++i)
    std::memset(&all[placeOf(i)], kNaNs, elementBytes());
  return std::all_of(all.begin(), all.end(), [](char byte) { return byte == kNaNs; });
}

std::string HeadsCase::describe() const {
  std::ostringstream text;
  text << nameOf(family) << nameOf(elements) << " to " << nameOf(results) << ", " << sizes.batch
       << " x " << sizes.queries << " queries from " << sizes.firstQuery << ", " << sizes.keys
       << " keys from " << sizes.firstKey << ", heads " << sizes.heads << " and " << sizes.kvHeads
       << " of " << sizes.headWidth << ", window " << sizes.window << ", " << sizes.starts.size()
       << " documents";
  return std::move(text).str();
}

// Sums of tensor cores may be truncated, which is twice a rounding to nearest.
PairRounding HeadsCase::rounding() const {
  if (isReference()) return {.step = 0x1p-23};
  return {.step = 0x1p-23, .weight = roundingOf(elements), .least = 0x1p-25};
}

Heads::Heads(const HeadsCase& from)
    : query(from.sizes.batch, from.sizes.queries, from.sizes.heads * from.sizes.headWidth,
            from.elements),
      key(from.sizes.batch, from.sizes.keys, from.sizes.kvHeads * from.sizes.headWidth,
          from.elements),
      value(from.sizes.batch, from.sizes.keys, from.sizes.kvHeads * from.sizes.headWidth,
            from.elements),
      out(from.sizes.batch, from.sizes.queries, from.sizes.heads * from.sizes.headWidth,
          from.results),
      logSumExp(from.sizes.batch, from.sizes.heads, from.sizes.queries, from.results),
      dOut(from.sizes.batch, from.sizes.queries, from.sizes.heads * from.sizes.headWidth,
           from.elements),
      dQuery(from.sizes.batch, from.sizes.queries, from.sizes.heads * from.sizes.headWidth,
             from.results),
      dKey(from.sizes.batch, from.sizes.keys, from.sizes.kvHeads * from.sizes.headWidth,
           from.results),
      dValue(from.sizes.batch, from.sizes.keys, from.sizes.kvHeads * from.sizes.headWidth,
             from.results),
      case_(from),
      // Blocks that stay have several tiles each.
      attentions_(from.family, from.blocks > 0                           ? from.blocks
                               : from.sizes.batch * from.sizes.heads < 4 ? 1
                                                                         : 3),
      starts_(std::max<size_t>(from.sizes.starts.size(), 1)),
      dots_(from.sizes.batch, from.sizes.heads, from.sizes.queries, ElementFormat::Float32) {
  if (!from.sizes.starts.empty()) starts_.upload(from.sizes.starts);
  for (const auto load : {loadAttention, loadAttentionForward, loadAttentionGradients,
                          loadWgmmaForward, loadWgmmaGradients, loadOnePass})
    emulation::check(load());
}

std::vector<double> Heads::random(int64_t count, int range, ElementFormat format) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    double number = 0;
    if (range > 0)
      number = random_.between(range);
    else  // near enough to a normal distribution
      for (int j = 0; j < 12; ++j) number += random_.between(1 << 20) * 0x1p-21;
    values.push_back(roundedTo(format, number));
  }
  return values;
}

AttentionSizes Heads::sizes() const {
  const PairSizes& s = case_.sizes;
  const auto number = [](int64_t size) { return static_cast<int32_t>(size); };
  const int32_t documents = number(static_cast<int64_t>(s.starts.size()) / s.batch);
  return {.batch = number(s.batch),
          .heads = number(s.heads),
          .kvHeads = number(s.kvHeads),
          .headWidth = number(s.headWidth),
          .queries = number(s.queries),
          .keys = number(s.keys),
          .firstQuery = s.firstQuery,
          .firstKey = s.firstKey,
          .scale = 1 / std::sqrt(static_cast<double>(s.headWidth)),
          .reach = {.window = s.window,
                    .starts = documents == 0 ? nullptr : starts_.get(),
                    .startsStride = documents,
                    .documents = documents}};
}

void Heads::forward() {
  const AttentionForward x{.sizes = sizes(),
                           .query = query.rows(),
                           .key = key.rows(),
                           .value = value.rows(),
                           .out = out.rows(),
                           .logSumExp = logSumExp.scalars()};
  ASSERT_EQ(attentionOf(x, case_.family), case_.family);
  emulation::check(attentions_.enqueue(x, false, nullptr));
  emulation::check(cudaDeviceSynchronize());
}

void Heads::backward(bool adds) {
  AttentionBackward x{.sizes = sizes(),
                      .dOut = dOut.rows(),
                      .query = query.rows(),
                      .key = key.rows(),
                      .value = value.rows(),
                      .dQuery = dQuery.rows(),
                      .dKey = dKey.rows(),
                      .dValue = dValue.rows(),
                      .logSumExp = logSumExp.scalars(),
                      .dots = dots_.scalars(),
                      .adds = adds,
                      .scratch = nullptr};
  ASSERT_EQ(attentionOf(x, case_.family), case_.family);
  // One number more, which must stay as it is, as what backward finds there: NaN.
  const auto numbers = static_cast<size_t>(attentions_.scratchOf(x));
  emulation::DeviceArray<char> scratch((numbers + 1) * sizeof(float));
  scratch.fill(kNaNs);
  x.scratch = reinterpret_cast<float*>(scratch.get());
  emulation::check(
      enqueue(AttentionDots{.sizes = x.sizes, .dOut = x.dOut, .out = out.rows(), .dots = x.dots},
              false, nullptr));
  emulation::check(attentions_.enqueue(x, false, nullptr));
  emulation::check(cudaDeviceSynchronize());
  const std::vector<char> after = scratch.download();
  EXPECT_TRUE(std::all_of(after.end() - sizeof(float), after.end(),
                          [](char byte) { return byte == kNaNs; }));
}

std::string Heads::error(const Spread& result, const Near& near) const {
  std::ostringstream text;
  if (!result.areGapsKept()) text << "something was written around it; ";
  const std::vector<double> values = result.get();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == near.values[i]) continue;  // infinities
    const double bound = near.bounds[i] + leastOf(result.format()) +
                         roundingOf(result.format()) * (std::fabs(near.values[i]) + near.bounds[i]);
    if (std::fabs(values[i] - near.values[i]) <= bound) continue;
    text << case_.describe() << ": element " << i << " is " << values[i] << ", not "
         << near.values[i] << " to " << bound;
    break;
  }
  return std::move(text).str();
}

}  // namespace tutti::parallel::cuda
