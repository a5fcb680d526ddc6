#include "parallel/kernels/cuda/vectorized/choice.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

constexpr int64_t kMostRuns = int64_t{1} << 31;  // what Divider divides

bool isNarrowFormat(ElementFormat format) {
  return format == ElementFormat::BFloat16 || format == ElementFormat::Float16;
}
bool isAligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kWordBytes == 0; }

/// Of operands that are contiguous, or whose rows begin at multiples of `run` elements besides.
int32_t runOf(std::initializer_list<Elements> operands) {
  int32_t run = 4;
  for (const Elements& x : operands) {
    if (x.data == nullptr) continue;
    if (x.format == ElementFormat::Float64 || !isAligned(x.data)) return 0;
    if (isNarrowFormat(x.format)) run = 8;
  }
  return run;
}

/// `run`, or 0 unless it divides all of these and there are runs, not too many.
int32_t ifDivides(int32_t run, int64_t count, std::initializer_list<int64_t> widths) {
  if (run == 0 || count == 0 || count / run >= kMostRuns) return 0;
  return std::all_of(widths.begin(), widths.end(), [&](int64_t each) { return each % run == 0; })
             ? run
             : 0;
}

/// Rows of both.
int32_t ifDivides(int32_t run, int64_t count, int64_t width, const RowPlaces& one,
                  const RowPlaces& other) {
  if (one.isContiguous != 0 && other.isContiguous != 0) return ifDivides(run, count, {count});
  return ifDivides(run, count,
                   {width, one.strides[0], one.strides[1], one.strides[2], other.strides[0],
                    other.strides[1], other.strides[2]});
}

/// `run`, or 0 unless such rows stay in registers.
int32_t ifFits(int32_t run, int32_t rows, int32_t width) {
  return run == 0 || width > kMostNormColumns ? 0
                                              : ifDivides(kNormRun, int64_t{rows} * width, {width});
}

int32_t runOfLogits(const Elements& logits, int32_t rows, int32_t width) {
  return rows == 0 || width == 0 || runOf({logits}) == 0 ? 0 : kLossRun;
}

/// So many rows of both.
int32_t ofPlaced(const Placed& x, int64_t rows) {
  return ifDivides(runOf({x.rows, x.placed}), rows * x.width, {x.width});
}

/// Of both.
int32_t ofHeads(const AttentionSizes& sizes, const HeadRows& one, const HeadRows& other) {
  const int64_t rows = int64_t{sizes.batch} * sizes.heads * sizes.queries;
  return ifDivides(
      runOf({one.elements, other.elements}), rows * sizes.headWidth,
      {sizes.headWidth, one.batchStride, one.rowStride, other.batchStride, other.rowStride});
}

}  // namespace

MemoryBoundFamily memoryBoundOfEnvironment() {
  const char* const text = std::getenv("TUTTI_MEMORY_BOUND");
  const std::string word = text == nullptr ? "vectorized" : text;
  require(word == "reference" || word == "vectorized",
          "TUTTI_MEMORY_BOUND is reference or vectorized, not ", word);
  return word == "reference" ? MemoryBoundFamily::Reference : MemoryBoundFamily::Vectorized;
}

int32_t runOf(const MoveRows& x) {
  if (!isAligned(x.from) || !isAligned(x.to)) return 0;
  const auto run = static_cast<int32_t>(kWordBytes / x.elementBytes);
  return ifDivides(run, x.count, x.width, x.fromRows, x.toRows);
}

int32_t runOf(const Convert& x) {
  return ifDivides(runOf({x.from, x.to}), x.count, x.width, x.fromRows, x.toRows);
}

int32_t runOf(const AddRows& x) {
  return ifDivides(runOf({x.from, x.to}), x.count, x.width, x.fromRows, x.toRows);
}

int32_t runOf(const AddBias& x) {
  return ifDivides(runOf({x.bias, x.y.elements}), x.rows * x.width, {x.width, x.y.stride});
}

int32_t runOf(const Gelu& x) { return ifDivides(runOf({x.dy, x.x, x.y}), x.count, {x.count}); }

int32_t runOf(const SwiGlu& x) {
  return ifDivides(runOf({x.dy, x.x, x.y}), x.rows * x.width, {x.width});
}

int32_t runOf(const Rotary& x) {
  return ifDivides(runOf({x.x, x.cosine, x.sine}), x.rows * x.heads * x.half, {x.half, x.columns});
}

// Weights, results of rowDots, and numbers of a row of a head are read and written one by one.

int32_t runOf(const Embedding& x) {
  return ifDivides(runOf({x.tokens, x.positions, x.x}), int64_t{x.rows} * x.width, {x.width});
}

int32_t runOf(const SpreadRows& x) { return x.choices == 0 ? 0 : ofPlaced(x, x.count / x.choices); }

int32_t runOf(const CombineRows& x) { return ofPlaced(x, x.count); }

int32_t runOf(const RowDots& x) { return ofPlaced(x, x.count); }

int32_t runOf(const AttentionMerge& x) { return ofHeads(x.sizes, x.part, x.out); }

int32_t runOf(const AttentionDots& x) { return ofHeads(x.sizes, x.dOut, x.out); }

int32_t runOf(const SumByRow& x) {
  if (x.count == 0) return 0;
  constexpr int64_t kWarp = 32 * 8;  // columns that a row's last warp may have beyond it
  const int64_t threads = x.count * (x.width + kWarp);
  const int32_t run = ifDivides(runOf({x.dx, x.to}), threads, {x.width});
  return run == 0 ? 1 : run;
}

// A row's mean and rstd are read one by one, and of float64 where all operands are.

int32_t runOf(const NormForward& x) {
  return ifFits(runOf({x.x, x.weight, x.bias, x.y, x.residual}), x.rows, x.width);
}

int32_t runOf(const NormBackward& x) {
  return ifFits(runOf({x.dy, x.x, x.weight, x.residual, x.dx}), x.rows, x.width);
}

// Results are written one by one.

int32_t runOf(const ColumnSums& x) {
  const int32_t run = runOf({x.dy.elements, x.x});
  const bool fits =
      run != 0 && ifDivides(kNormRun, int64_t{x.rows} * x.width, {x.width, x.dy.stride}) != 0;
  return fits ? run : 0;
}

int64_t partialSumsOf(const ColumnSums& x) {
  const int32_t slices = runOf(x) == 0 ? 1 : slicesOf(x.rows).count;
  const int sums = x.sumsOfDy.data == nullptr ? 1 : 2;
  return slices == 1 ? 0 : int64_t{sums} * slices * x.width;
}

int32_t runOf(const LogitStatistics& x) { return runOfLogits(x.logits, x.rows, x.width); }

int32_t runOf(const CrossEntropy& x) { return runOfLogits(x.logits, x.rows, x.width); }

}  // namespace tutti::parallel::cuda
