#pragma once

// Attention on a GPU or on the emulation, by the kernels themselves: operands whose rows and heads
// have gaps, which are NaN, so that what is read there shows, and which must stay as they are.

#include <string>
#include <vector>

#include "parallel/kernels/cuda/attention/attentions.h"
#include "tests/emulation/device_array.h"
#include "tests/parallel/kernels/attention_pairs.h"
#include "tests/parallel/kernels/cuda/formats.h"

namespace tutti::parallel::cuda {

/// Rounds to nearest.
double roundedTo(ElementFormat format, double value);

/// [outer, rows, columns] of one format.
class Spread {
 public:
  /// Elements that are overwritten are NaN until then.
  Spread(int64_t outer, int64_t rows, int64_t columns, ElementFormat format);
  void set(const std::vector<double>& values);
  std::vector<double> get() const;
  /// All bytes, the gaps' too.
  std::vector<char> bytes() const { return memory_.download(); }
  /// Whether the gaps are as they were.
  bool areGapsKept() const;

  ElementFormat format() const { return format_; }
  HeadRows rows() const { return {elements(), outerStride(), rowStride()}; }
  /// [batch, heads, rows].
  HeadScalars scalars() const { return {elements(), outerStride(), rowStride()}; }

 private:
  int64_t rowStride() const;
  int64_t outerStride() const { return (rows_ + 1) * rowStride(); }
  Elements elements() const;
  size_t elementBytes() const { return format_ == ElementFormat::Float32 ? 4 : 2; }
  /// Of the element of this number, in bytes.
  size_t placeOf(size_t index) const;

  int64_t outer_, rows_, columns_;
  ElementFormat format_;
  emulation::DeviceArray<char> memory_;
};

struct HeadsCase {
  PairSizes sizes{};
  ElementFormat elements = ElementFormat::BFloat16;  ///< of queries, keys, values and dOut
  ElementFormat results = ElementFormat::Float32;    ///< of the others
  AttentionFamily family = AttentionFamily::Mma;
  int32_t blocks = 0;  ///< of kernels whose blocks stay; 0: as few as have several tiles each
  bool isReference() const { return family == AttentionFamily::Reference; }
  std::string describe() const;
  /// What the kernels round.
  PairRounding rounding() const;
};

class Heads {
 public:
  explicit Heads(const HeadsCase& from);
  /// Of integers up to `range`, or of a normal distribution where that is 0; as they are rounded.
  std::vector<double> random(int64_t count, int range, ElementFormat format);

  void forward();
  /// Adds to what dQuery, dKey and dValue have, or writes over it.
  void backward(bool adds);
  /// What is wrong with a result: with its gaps, with the first element that is not near, or
  /// nothing.
  std::string error(const Spread& result, const Near& near) const;

  Spread query, key, value, out, logSumExp, dOut, dQuery, dKey, dValue;

 private:
  AttentionSizes sizes() const;

  const HeadsCase case_;
  Attentions attentions_;
  emulation::DeviceArray<int32_t> starts_;
  Spread dots_;
  emulation::Random random_{7};
};

}  // namespace tutti::parallel::cuda
