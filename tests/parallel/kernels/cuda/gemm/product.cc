#include "tests/parallel/kernels/cuda/gemm/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace tutti::parallel::cuda {

namespace {

constexpr int32_t kMargin = 256;  // bytes, so that the first element is aligned
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// 10 bits of a float32's mantissa, ties away from zero.
uint32_t roundedToTf32(uint32_t bits) { return (bits + 0x1000u) & ~0x1fffu; }

bool isGated(Activation activation) {
  return activation == Activation::SwiGlu || activation == Activation::SwiGluBackward;
}

const char* nameOf(Activation activation) {
  switch (activation) {
    case Activation::None: return "";
    case Activation::Gelu: return ", gelu";
    case Activation::GeluBackward: return ", gelu backward";
    case Activation::SwiGlu: return ", swiglu";
    case Activation::SwiGluBackward: return ", swiglu backward";
  }
  return "?";
}

}  // namespace

std::string EpilogueCase::describe() const {
  std::ostringstream text;
  text << nameOf(activation) << (keeps ? "" : ", not kept") << (bias ? ", bias" : "")
       << (residual ? ", residual" : "") << ", times " << scale << ", offsets " << offsetInner
       << " " << offsetBias << " " << offsetResidual << (wideInner ? ", wide inner" : "")
       << (wideBias ? ", wide bias" : "") << (wideResidual ? ", wide residual" : "");
  return std::move(text).str();
}

std::string ProductCase::describe() const {
  std::ostringstream text;
  text << "[" << rows << ", " << columns << "] over " << depth << ", " << nameOf(in) << " to "
       << nameOf(out) << (isKMajorA ? ", a" : ", a'") << (isKMajorB ? " b'" : " b")
       << (accumulate ? ", added" : "") << ", offsets " << offsetA << " " << offsetB << " "
       << offsetC << ", gaps " << gapA << " " << gapB << " " << gapC << ", batch of " << batch
       << (sharesA ? ", one a" : "") << (sharesB ? ", one b" : "") << ", gap " << batchGap
       << epilogue.describe() << ", " << forced;
  return std::move(text).str();
}

Product::Image::Image(int32_t ofRows, int32_t ofColumns, const Place& place, ElementFormat ofFormat,
                      char filling)
    : rowsOfOne(ofRows),
      rows(ofRows * place.count),
      columns(ofColumns),
      offset(kMargin / bytesOf(ofFormat) + place.offset),
      stride((ofColumns + 7) / 8 * 8 + place.gap),
      batchStride(place.count == 1 ? 0 : (ofRows + 1) * stride + place.batchGap),
      format(ofFormat) {
  // Behind the last element nothing more: whoever reads or writes there is found out.
  if (rows > 0) bytes.assign(placeOf(rows - 1, columns), filling);
}

size_t Product::Image::placeOf(int32_t row, int32_t column) const {
  const int64_t place = offset + row / rowsOfOne * batchStride + row % rowsOfOne * stride + column;
  return static_cast<size_t>(place * bytesOf(format));
}

void Product::Image::set(int32_t row, int32_t column, double value) {
  const uint32_t bits = bitsOf(value, format);
  std::memcpy(&bytes[placeOf(row, column)], &bits, static_cast<size_t>(bytesOf(format)));
}

DeviceMatrix Product::Image::matrix(char* memory) const {
  return {{memory + placeOf(0, 0), format}, stride};
}

Product::Operand Product::random(const Image& image, uint64_t seed, bool isRounded) const {
  Operand operand(image);
  emulation::Random numbers(seed);
  for (int32_t row = 0; row < image.rows; ++row)
    for (int32_t column = 0; column < image.columns; ++column) {
      double value = numbers.between(4);
      if (case_.anyNumbers) {  // near enough to a normal distribution
        value = 0;
        for (int i = 0; i < 12; ++i) value += numbers.between(1 << 20) * 0x1p-21;
      }
      operand.image.set(row, column, value);
      const uint32_t bits = bitsOf(value, image.format);
      operand.values.push_back(numberOf(isRounded ? roundedToTf32(bits) : bits, image.format));
    }
  operand.upload();
  return operand;
}

std::vector<double> Product::rowsOfB(int32_t product) const {
  std::vector<double> rows;
  rows.reserve(static_cast<size_t>(case_.depth) * static_cast<size_t>(case_.columns));
  for (int32_t i = 0; i < case_.depth; ++i)
    for (int32_t column = 0; column < case_.columns; ++column)
      rows.push_back(case_.isKMajorB ? b_.at(product * case_.columns + column, i)
                                     : b_.at(product * case_.depth + i, column));
  return rows;
}

// Products of 16 bits, and of TF32, are exact in float32. Sums err by at most one unit in the last
// place of the sum of sizes for each addition (2^-23, which also holds where the last place is cut
// off, and where both a product and its addition are rounded to nearest). Integers have no error.
void Product::sum() {
  const int32_t rows = case_.rows * case_.batch;
  sums_.resize(static_cast<size_t>(rows) * static_cast<size_t>(case_.columns));
  std::vector<double> b;
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t product = row / case_.rows, own = row % case_.rows;
    const int32_t ofA = case_.sharesA ? 0 : product, ofB = case_.sharesB ? 0 : product;
    if (row == 0 || (own == 0 && !case_.sharesB)) b = rowsOfB(ofB);
    Near* const to = &sums_[static_cast<size_t>(row) * static_cast<size_t>(case_.columns)];
    for (int32_t i = 0; i < case_.depth; ++i) {
      const double left =
          case_.isKMajorA ? a_.at(ofA * case_.rows + own, i) : a_.at(ofA * case_.depth + i, own);
      const double* const right = b.data() + static_cast<ptrdiff_t>(i) * case_.columns;
      for (int32_t column = 0; column < case_.columns; ++column) {
        const double summand = left * right[column];
        to[column].value += summand;
        to[column].error += std::fabs(summand);
      }
    }
    for (int32_t column = 0; column < case_.columns; ++column)
      to[column].error *= case_.anyNumbers ? (case_.depth + 1) * 0x1p-23 : 0;
  }
}

/// What c and inner should be then, and what they are before.
void Product::expectEpilogue() {
  const EpilogueCase& e = case_.epilogue;
  const bool isRead = e.activation != Activation::Gelu;  // of inner the left half
  const bool isKept = e.activation == Activation::SwiGlu;
  const int32_t rows = case_.rows * case_.batch;
  expectedC_.resize(static_cast<size_t>(rows * c_.image.columns));
  expectedInner_.resize(static_cast<size_t>(rows * inner_.image.columns));
  for (int32_t row = 0; row < rows; ++row)
    for (int32_t column = 0; column < case_.columns; ++column) {
      const size_t first = static_cast<size_t>(row) * static_cast<size_t>(case_.columns);
      EpilogueInput in{.sum = sums_[first + static_cast<size_t>(column)],
                       .activation = e.activation,
                       .scale = e.scale,
                       .bias = e.bias ? bias_.at(case_.sharesB ? 0 : row / case_.rows, column) : 0};
      const int32_t right = column + case_.columns;
      if (isRead && e.activation != Activation::None) in.inner[0] = inner_.at(row, column);
      if (e.activation == Activation::SwiGluBackward) in.inner[1] = inner_.at(row, right);
      for (int32_t half = 0; half < halves_; ++half) {
        const int32_t at = column + half * case_.columns;
        if (e.residual) in.residual[half] = residual_.at(row, at);
        if (case_.accumulate) in.before[half] = c_.at(row, at);
        if (!case_.accumulate) c_.image.set(row, at, kNaN);
      }
      const EpilogueResult out = epilogueOf(in);
      for (int32_t half = 0; half < halves_; ++half)
        expectedC_[first * static_cast<size_t>(halves_) +
                   static_cast<size_t>(column + half * case_.columns)] = out.c[half];
      Near* const inner = &expectedInner_[static_cast<size_t>(row * inner_.image.columns)];
      if (e.activation == Activation::Gelu && e.keeps) {
        inner[column] = out.kept;
        inner_.image.set(row, column, kNaN);
      } else {
        inner[column] = {inner_.at(row, column), 0};
      }
      if (!isGated(e.activation)) continue;
      inner[right] = isKept ? out.kept : Near{inner_.at(row, right), 0};
      if (isKept) inner_.image.set(row, right, kNaN);
    }
}

Product::Product(const ProductCase& from)
    : case_(from),
      halves_(from.epilogue.activation == Activation::SwiGluBackward ? 2 : 1),
      a_(random({from.isKMajorA ? from.rows : from.depth, from.isKMajorA ? from.depth : from.rows,
                 placeOf(from.offsetA, from.gapA, from.sharesA), from.in, kNaNs},
                1, from.forced.rfind("tf32", 0) == 0)),
      b_(random(
          {from.isKMajorB ? from.columns : from.depth, from.isKMajorB ? from.depth : from.columns,
           placeOf(from.offsetB, from.gapB, from.sharesB), from.in, kNaNs},
          2, from.forced.rfind("tf32", 0) == 0)),
      c_(random({from.rows, halves_ * from.columns, placeOf(from.offsetC, from.gapC, false),
                 from.out, kCanary},
                3, false)),
      inner_(random({from.rows, (isGated(from.epilogue.activation) ? 2 : 1) * from.columns,
                     placeOf(from.epilogue.offsetInner, from.gapC + 8, false),
                     from.epilogue.wideInner ? ElementFormat::Float32 : from.in, kCanary},
                    4, false)),
      bias_(random({1, from.columns, placeOf(from.epilogue.offsetBias, 0, from.sharesB),
                    from.epilogue.wideBias ? ElementFormat::Float32 : from.in, kNaNs},
                   5, false)),
      residual_(random({from.rows, halves_ * from.columns,
                        placeOf(from.epilogue.offsetResidual, from.gapC + 16, false),
                        from.epilogue.wideResidual ? ElementFormat::Float32 : from.out, kNaNs},
                       6, false)),
      gemms_(chipOf(0), GemmOptions{.forced = GemmForced::parse(from.forced), .table = {}}),
      arrivals_(static_cast<size_t>(Gemms::arrivalsOf(chipOf(0)))) {
  arrivals_.fill(0);
  for (const auto load : {loadSimt, loadMma, loadWgmma, loadSplits}) emulation::check(load());
  sum();
  expectEpilogue();
  const EpilogueCase& e = from.epilogue;
  const auto matrix = [](const Operand& of) { return of.image.matrix(of.memory.get()); };
  const bool hasInner =
      e.activation != Activation::None && (e.keeps || e.activation != Activation::Gelu);
  product_ = {.a = matrix(a_),
              .b = matrix(b_),
              .c = matrix(c_),
              .rows = from.rows,
              .columns = from.columns,
              .depth = from.depth,
              .isKMajorA = from.isKMajorA,
              .isKMajorB = from.isKMajorB,
              .accumulate = from.accumulate,
              .epilogue = {.activation = e.activation,
                           .inner = hasInner ? matrix(inner_) : DeviceMatrix{},
                           .residual = e.residual ? matrix(residual_) : DeviceMatrix{},
                           .bias = e.bias ? matrix(bias_).elements : Elements{},
                           .scale = e.scale},
              .batch = from.batch,
              .batchStrideA = a_.image.batchStride,
              .batchStrideB = b_.image.batchStride,
              .strides = {.c = c_.image.batchStride,
                          .inner = hasInner ? inner_.image.batchStride : 0,
                          .residual = e.residual ? residual_.image.batchStride : 0,
                          .bias = e.bias ? bias_.image.batchStride : 0}};
  choice_ = gemms_.choose(product_);
}

void Product::run() {
  c_.upload();
  inner_.upload();
  emulation::DeviceArray<float> partial(
      static_cast<size_t>(std::max<int64_t>(Gemms::partialSumsOf(product_, choice_), 1)));
  partial.fill(0xff);
  emulation::check(gemms_.enqueue(product_, choice_, {partial.get(), arrivals_.get()}, nullptr));
  emulation::check(cudaDeviceSynchronize());
}

// The result errs, besides, by half of one in the last place of its type (2^-9, 2^-12, 2^-24) and,
// where that is a multiple of the least there is, half of that.
std::string Product::errorOf(const Result& result) const {
  const Image& image = result.of.image;
  const std::vector<char> now = result.of.memory.download();
  std::vector<char> outside = now;
  const double unit = image.format == ElementFormat::BFloat16  ? 0x1p-8
                      : image.format == ElementFormat::Float16 ? 0x1p-11
                                                               : 0x1p-24;
  std::ostringstream text;
  const auto bytes = static_cast<size_t>(bytesOf(image.format));
  for (int32_t row = 0; row < image.rows; ++row)
    for (int32_t column = 0; column < image.columns; ++column) {
      const size_t at = image.placeOf(row, column);
      const Near& expected = result.expected[static_cast<size_t>(row * image.columns + column)];
      uint32_t bits = 0;
      std::memcpy(&bits, &now[at], bytes);
      std::memcpy(&outside[at], &image.bytes[at], bytes);
      const double got = numberOf(bits, image.format);
      if (expected.error == 0 ? got == numberOf(bitsOf(expected.value, image.format), image.format)
                              : expected.isWithin(got, unit))
        continue;
      text << result.name << "[" << row << ", " << column << "] is " << got << ", not "
           << expected.value << " with an error up to " << expected.error;
      return std::move(text).str();
    }
  if (outside != image.bytes) {
    const auto first = std::mismatch(outside.begin(), outside.end(), image.bytes.begin()).first;
    text << "byte " << first - outside.begin() << " of " << result.name << "'s memory was written";
  }
  return std::move(text).str();
}

std::vector<char> Product::elementsOfC() const {
  const std::vector<char> all = bytes();
  const auto rowBytes = static_cast<size_t>(c_.image.columns * bytesOf(c_.image.format));
  std::vector<char> elements;
  for (int32_t row = 0; row < c_.image.rows; ++row) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(c_.image.placeOf(row, 0));
    elements.insert(elements.end(), first, first + static_cast<ptrdiff_t>(rowBytes));
  }
  return elements;
}

std::string Product::error() const {
  const std::string ofC = errorOf({"c", c_, expectedC_});
  for (const uint32_t arrivals : arrivals_.download())
    if (arrivals != 0) return "arrivals are left";
  return ofC.empty() ? errorOf({"inner", inner_, expectedInner_}) : ofC;
}

}  // namespace tutti::parallel::cuda
