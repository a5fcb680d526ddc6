#include "tests/parallel/cuda/gemm/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace tutti::parallel::cuda {

namespace {

constexpr int32_t kMargin = 256;  // bytes, so that the first element is aligned
constexpr char kCanary = 0x5a, kNaNs = -1;

/// 10 bits of a float32's mantissa, ties away from zero.
uint32_t roundedToTf32(uint32_t bits) { return (bits + 0x1000u) & ~0x1fffu; }

/// [rows, columns] to [columns, rows].
std::vector<double> turned(const std::vector<double>& values, int32_t rows, int32_t columns) {
  std::vector<double> result(values.size());
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
    for (size_t column = 0; column < static_cast<size_t>(columns); ++column)
      result[column * static_cast<size_t>(rows) + row] =
          values[row * static_cast<size_t>(columns) + column];
  return result;
}

}  // namespace

int32_t bytesOf(Format format) { return format == Format::Float32 ? 4 : 2; }

std::string ProductCase::describe() const {
  std::ostringstream text;
  text << "[" << rows << ", " << columns << "] over " << depth << ", " << nameOf(in) << " to "
       << nameOf(out) << (isKMajorA ? ", a" : ", a'") << (isKMajorB ? " b'" : " b")
       << (accumulate ? ", added" : "") << ", offsets " << offsetA << " " << offsetB << " "
       << offsetC << ", gaps " << gapA << " " << gapB << " " << gapC << ", " << forced;
  return std::move(text).str();
}

Product::Image Product::imageOf(int32_t rows, int32_t columns, int32_t offset, int32_t gap,
                                Format format, char filling) const {
  const int32_t bytes = bytesOf(format);
  const int64_t stride = (columns + 7) / 8 * 8 + gap;
  Image image{
      .bytes = {}, .offset = kMargin / bytes + offset, .stride = stride, .elementBytes = bytes};
  // Behind the last element nothing more: whoever reads or writes there is found out.
  image.bytes.assign(static_cast<size_t>((image.offset + (rows - 1) * stride + columns) * bytes),
                     filling);
  return image;
}

Product::Image Product::fill(std::vector<double>& values, int32_t rows, int32_t columns,
                             int32_t offset, int32_t gap, uint64_t seed) const {
  Image image = imageOf(rows, columns, offset, gap, case_.in, kNaNs);
  emulation::Random random(seed);
  values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int32_t row = 0; row < rows; ++row)
    for (int32_t column = 0; column < columns; ++column) {
      double value = random.between(4);
      if (case_.anyNumbers) {  // near enough to a normal distribution
        value = 0;
        for (int i = 0; i < 12; ++i) value += random.between(1 << 20) * 0x1p-21;
      }
      const uint32_t bits = bitsOf(value, case_.in);
      const auto bytes = static_cast<size_t>(image.elementBytes);
      std::memcpy(
          &image.bytes[static_cast<size_t>(image.offset + row * image.stride + column) * bytes],
          &bits, bytes);
      const bool isRounded = case_.in == Format::Float32 && case_.forced.rfind("tf32", 0) == 0;
      values[static_cast<size_t>(row) * static_cast<size_t>(columns) +
             static_cast<size_t>(column)] =
          numberOf(isRounded ? roundedToTf32(bits) : bits, case_.in);
    }
  return image;
}

void Product::compute() {
  const auto rows = static_cast<size_t>(case_.rows), columns = static_cast<size_t>(case_.columns),
             depth = static_cast<size_t>(case_.depth);
  if (!case_.isKMajorA) a_ = turned(a_, case_.depth, case_.rows);
  if (case_.isKMajorB) b_ = turned(b_, case_.columns, case_.depth);  // [depth, columns]
  exact_ = before_;
  sizes_.resize(rows * columns);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < depth; ++i) {
      const double left = a_[row * depth + i];
      for (size_t column = 0; column < columns; ++column) {
        const double product = left * b_[i * columns + column];
        exact_[row * columns + column] += product;
        sizes_[row * columns + column] += std::fabs(product);
      }
    }
}

Product::Product(const ProductCase& from)
    : case_(from),
      imageA_(fill(a_, from.isKMajorA ? from.rows : from.depth,
                   from.isKMajorA ? from.depth : from.rows, from.offsetA, from.gapA, 1)),
      imageB_(fill(b_, from.isKMajorB ? from.columns : from.depth,
                   from.isKMajorB ? from.depth : from.columns, from.offsetB, from.gapB, 2)),
      imageC_(imageOf(from.rows, from.columns, from.offsetC, from.gapC, from.out, kCanary)),
      memoryA_(imageA_.bytes),
      memoryB_(imageB_.bytes),
      memoryC_(imageC_.bytes.size()),
      gemms_(chipOf(0), GemmOptions{.forced = GemmForced::parse(from.forced), .table = {}}) {
  for (const auto load : {loadSimt, loadMma, loadWgmma, loadSplits}) emulation::check(load());
  emulation::Random random(3);
  for (int32_t row = 0; row < from.rows; ++row)
    for (int32_t column = 0; column < from.columns; ++column) {
      const double before = from.accumulate ? random.between(4) : 0;
      const uint32_t bits =
          bitsOf(from.accumulate ? before : std::numeric_limits<double>::quiet_NaN(), from.out);
      const auto bytes = static_cast<size_t>(imageC_.elementBytes);
      std::memcpy(
          &imageC_
               .bytes[static_cast<size_t>(imageC_.offset + row * imageC_.stride + column) * bytes],
          &bits, bytes);
      before_.push_back(before);
    }
  compute();
  const auto matrix = [](const Image& image, char* memory, Format format) {
    return Matrix{{memory + image.offset * image.elementBytes, format}, image.stride};
  };
  product_ = {.a = matrix(imageA_, memoryA_.get(), from.in),
              .b = matrix(imageB_, memoryB_.get(), from.in),
              .c = matrix(imageC_, memoryC_.get(), from.out),
              .rows = from.rows,
              .columns = from.columns,
              .depth = from.depth,
              .isKMajorA = from.isKMajorA,
              .isKMajorB = from.isKMajorB,
              .accumulate = from.accumulate};
  choice_ = gemms_.choose(product_);
}

void Product::run() {
  emulation::check(cudaMemcpy(memoryC_.get(), imageC_.bytes.data(), imageC_.bytes.size(),
                              cudaMemcpyHostToDevice));
  emulation::DeviceArray<float> partial(
      static_cast<size_t>(std::max<int64_t>(Gemms::partialSumsOf(product_, choice_), 1)));
  partial.fill(0xff);
  emulation::check(gemms_.enqueue(product_, choice_, partial.get(), nullptr));
  emulation::check(cudaDeviceSynchronize());
}

// Products of 16 bits, and of TF32, are exact in float32. Sums err by at most one unit in the last
// place of the sum of sizes for each addition (2^-23, which also holds where the last place is cut
// off, and where both a product and its addition are rounded to nearest), and the result by half of
// one of its type (2^-9, 2^-12, 2^-24) and, where that is a multiple of the least there is, half of
// that.
std::string Product::error() const {
  const std::vector<char> now = memoryC_.download();
  std::vector<char> outside = now;
  const double unit = case_.out == Format::BFloat16  ? 0x1p-8
                      : case_.out == Format::Float16 ? 0x1p-11
                                                     : 0x1p-24;
  std::ostringstream text;
  for (int32_t row = 0; row < case_.rows; ++row)
    for (int32_t column = 0; column < case_.columns; ++column) {
      const auto bytes = static_cast<size_t>(imageC_.elementBytes);
      const auto at = static_cast<size_t>(imageC_.offset + row * imageC_.stride + column) * bytes;
      const size_t i = static_cast<size_t>(row) * static_cast<size_t>(case_.columns) +
                       static_cast<size_t>(column);
      uint32_t bits = 0;
      std::memcpy(&bits, &now[at], bytes);
      std::memcpy(&outside[at], &imageC_.bytes[at], bytes);
      const double got = numberOf(bits, case_.out), exact = exact_[i];
      const double ofSums = (case_.depth + 1) * 0x1p-23 * (sizes_[i] + std::fabs(before_[i]));
      const bool isRight =
          case_.anyNumbers
              ? std::fabs(got - exact) <= ofSums + unit * (std::fabs(exact) + ofSums) + 0x1p-25
              : bits == bitsOf(exact, case_.out);
      if (isRight) continue;
      text << "c[" << row << ", " << column << "] is " << got << ", not " << exact;
      return std::move(text).str();
    }
  if (outside != imageC_.bytes) {
    const auto first = std::mismatch(outside.begin(), outside.end(), imageC_.bytes.begin()).first;
    text << "byte " << first - outside.begin() << " of c's memory was written";
  }
  return std::move(text).str();
}

}  // namespace tutti::parallel::cuda
