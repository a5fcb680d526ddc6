#include "tests/parallel/kernels/cuda/compared.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tutti::parallel {

namespace {
constexpr size_t kMargin = 256;
constexpr std::byte kCanary{0xa5};
constexpr uint64_t kSeed = 11;
}  // namespace

Operand Compared::make(const Shape& shape, DType type) {
  const auto whole = static_cast<int64_t>(kMargin + byteCount(type, shape));
  const Tensor memory = tested_->allocate(DType::UInt8, {whole});
  auto* const first = static_cast<std::byte*>(memory.data);
  std::fill_n(first, kMargin, kCanary);
  buffers_.push_back({first, memory.bytes()});
  return {Tensor(shape.count() == 0 ? nullptr : first + kMargin, type, shape),
          arena_.allocate(type == kInt ? kInt : DType::Float64, shape)};
}

void Compared::fill(const Operand& x, const std::function<double(uint64_t)>& value) {
  if (x.gpu.count() == 0) return;
  for (int64_t i = 0; i < x.exact.count(); ++i)
    x.exact.as<double>()[i] = value(static_cast<uint64_t>(i));
  host_.copy(x.exact, x.gpu);
  host_.copy(x.gpu, x.exact);
}

Operand Compared::random(const Shape& shape, DType type, double size) {
  const Operand x = make(shape, type);
  const Random values(kSeed, "operand");
  fill(x, [&](uint64_t i) { return size * values.normal(next_ + i); });
  next_ += static_cast<uint64_t>(shape.count());
  return x;
}

Operand Compared::grid(const Shape& shape, DType type) {
  const Operand x = make(shape, type);
  const Random values(kSeed, "grid");
  fill(x, [&](uint64_t i) { return static_cast<double>(values.below(next_ + i, 33)) / 8 - 2; });
  next_ += static_cast<uint64_t>(shape.count());
  return x;
}

Operand Compared::zeros(const Shape& shape, DType type) {
  const Operand x = make(shape, type);
  fill(x, [](uint64_t) { return 0; });
  return x;
}

Operand Compared::result(const Shape& shape, DType type) {
  const Operand x = make(shape, type);
  if (type == kInt) {
    for (const Tensor& t : {x.gpu, x.exact}) std::fill_n(t.as<int32_t>(), t.count(), -7);
    return x;
  }
  fill(x, [](uint64_t) { return std::numeric_limits<double>::quiet_NaN(); });
  return x;
}

Operand Compared::of(const std::vector<double>& values, const Shape& shape, DType type) {
  const Operand x = make(shape, type);
  fill(x, [&](uint64_t i) { return values.at(i); });
  return x;
}

Operand Compared::numbers(const std::vector<int32_t>& values, const Shape& shape) {
  const Operand x = make(shape, kInt);
  for (const Tensor& t : {x.gpu, x.exact}) std::copy(values.begin(), values.end(), t.as<int32_t>());
  return x;
}

Operand Compared::ids(const Shape& shape, int32_t end) {
  const Random values(kSeed, "ids");
  std::vector<int32_t> all;
  for (int64_t i = 0; i < shape.count(); ++i)
    all.push_back(static_cast<int32_t>(values.below(next_++, static_cast<uint64_t>(end))));
  return numbers(all, shape);
}

Operand Compared::rounded(const Operand& x, DType type) {
  return of(valuesOf(x.exact), x.exact.shape, type);
}

std::vector<double> Compared::valuesOf(const Tensor& x) {
  if (x.type == kInt) return {x.as<int32_t>(), x.as<int32_t>() + x.count()};
  const ArenaScope scope(arena_);
  const Tensor doubles = arena_.allocate(DType::Float64, x.shape);
  host_.copy(x, doubles);
  return {doubles.as<double>(), doubles.as<double>() + doubles.count()};
}

std::vector<std::byte> Compared::bytes() const {
  std::vector<std::byte> all;
  for (const Buffer& buffer : buffers_)
    all.insert(all.end(), buffer.memory, buffer.memory + buffer.bytes);
  return all;
}

void Compared::expectMargins() const {
  for (const Buffer& buffer : buffers_)
    EXPECT_TRUE(std::all_of(buffer.memory, buffer.memory + kMargin, [](std::byte byte) {
      return byte == kCanary;
    })) << "written before an operand";
}

void Compared::both(const std::function<void(const Side&)>& call) {
  const std::vector<std::byte> before = bytes();
  call({tested_->kernels(), true});
  tested_->finish();
  const std::vector<std::byte> after = bytes();
  const std::byte* from = before.data();
  for (const Buffer& buffer : buffers_) {
    std::memcpy(buffer.memory, from, buffer.bytes);
    from += buffer.bytes;
  }
  call({tested_->kernels(), true});
  tested_->finish();
  EXPECT_TRUE(bytes() == after) << "the second call gave other bits";
  expectMargins();
  call({host_, false});
}

void Compared::expectExact(const Operand& x, const char* what) {
  const ArenaScope scope(arena_);
  Tensor right = arena_.allocate(x.gpu.type, x.exact.shape);
  host_.copy(x.exact, right);
  const std::vector<double> gpu = valuesOf(x.gpu), exact = valuesOf(right);
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_TRUE(gpu[i] == exact[i] || (std::isnan(gpu[i]) && std::isnan(exact[i])))
        << what << ", element " << i << " of " << x.gpu << ": " << gpu[i] << ", not " << exact[i];
}

void Compared::expectNear(const Operand& x, double factor, const char* what) {
  const double ofResult = x.gpu.type == DType::BFloat16  ? 0x1p-8
                          : x.gpu.type == DType::Float16 ? 0x1p-11
                                                         : rounding();
  const double least = x.gpu.type == DType::Float16 ? 0x1p-25 : 0;  // half the least there is
  const std::vector<double> gpu = valuesOf(x.gpu), exact = valuesOf(x.exact);
  double size = 1;
  for (const double value : exact)
    if (std::isfinite(value)) size = std::max(size, std::fabs(value));
  const double bound = factor * rounding() * size;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (gpu[i] == exact[i]) continue;  // infinities
    ASSERT_LE(std::fabs(gpu[i] - exact[i]),
              bound + ofResult * (std::fabs(exact[i]) + bound) + least)
        << what << ", element " << i << " of " << x.gpu << ": " << gpu[i] << ", not " << exact[i];
  }
}

}  // namespace tutti::parallel
