#include "tests/parallel/kernels/cuda/vectorized/pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tutti::parallel::cuda {

size_t Pool::place(size_t bytes) {
  if (std::exchange(isComputed_, false)) expectNothingBehind();
  const size_t at = used_;
  used_ = (used_ + bytes + 2 * 256 - 1) / 256 * 256;
  if (used_ > kBytes) std::abort();
  image_.resize(used_, kNaNs);
  return at;
}

void Pool::expectNothingBehind() const {
  std::vector<char> bytes(kBytes - used_);
  emulation::check(
      cudaMemcpy(bytes.data(), memory_.get() + used_, bytes.size(), cudaMemcpyDeviceToHost));
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == kNaNs; }))
      << "something is written behind all operands";
}

Elements Pool::result(const Rows& rows, ElementFormat format) {
  const int64_t count = rows.shift + rows.rows * rows.stride;
  const size_t at = place(static_cast<size_t>(count * bytesOf(format)));
  return {memory_.get() + at + rows.shift * bytesOf(format), format};
}

Elements Pool::random(const Rows& rows, ElementFormat format, const Range& range) {
  const Elements x = result(rows, format);
  for (int64_t row = 0; row < rows.rows; ++row)
    for (int64_t column = 0; column < rows.width; ++column)
      set(x, row * rows.stride + column,
          range.least +
              (range.most - range.least) * static_cast<double>(random_.next() >> 11) * 0x1p-53);
  return x;
}

size_t Pool::offsetOf(const Elements& x, int64_t index) const {
  return static_cast<size_t>(static_cast<char*>(x.data) - memory_.get() +
                             index * bytesOf(x.format));
}

void Pool::set(const Elements& x, int64_t index, double value) {
  const uint32_t bits = bitsOf(value, x.format);
  std::memcpy(&image_[offsetOf(x, index)], &bits, static_cast<size_t>(bytesOf(x.format)));
}

const int32_t* Pool::numbers(const std::vector<int32_t>& values) {
  const size_t at = place(values.size() * sizeof(int32_t));
  std::memcpy(&image_[at], values.data(), values.size() * sizeof(int32_t));
  return reinterpret_cast<const int32_t*>(memory_.get() + at);
}

double* Pool::doubles(int64_t count) {
  const size_t at = place(static_cast<size_t>(count) * sizeof(double));
  return reinterpret_cast<double*>(memory_.get() + at);
}

float* Pool::scratch(int64_t count) {
  const Elements x = result({1, count, count}, ElementFormat::Float32);
  scratch_.emplace_back(x, count);
  return static_cast<float*>(x.data);
}

void Pool::reset() {
  expectNothingBehind();
  memory_.fill(kNaNs);
  used_ = 256;
  image_.assign(used_, kNaNs);
  scratch_.clear();
}

void Pool::erase(std::vector<char>& bytes, const Elements& x, int64_t count) const {
  const size_t at = offsetOf(x, 0);
  std::memcpy(&bytes[at], &image_[at], static_cast<size_t>(count * bytesOf(x.format)));
}

double Pool::numberIn(const std::vector<char>& bytes, const Elements& x, int64_t index) const {
  uint32_t bits = 0;
  std::memcpy(&bits, &bytes[offsetOf(x, index)], static_cast<size_t>(bytesOf(x.format)));
  return numberOf(bits, x.format);
}

double Pool::doubleIn(const std::vector<char>& bytes, const double* x) const {
  double value = 0;
  std::memcpy(&value, &bytes[static_cast<size_t>(reinterpret_cast<const char*>(x) - memory_.get())],
              sizeof value);
  return value;
}

std::vector<char> Pool::after(const Call& call, MemoryBoundFamily family) {
  memory_.upload(image_);
  isComputed_ = true;
  emulation::check(call(family), "a launch");
  emulation::check(cudaDeviceSynchronize());
  std::vector<char> bytes(used_);
  emulation::check(cudaMemcpy(bytes.data(), memory_.get(), used_, cudaMemcpyDeviceToHost));
  for (const auto& [x, count] : scratch_) erase(bytes, x, count);
  return bytes;
}

Pool::Results Pool::compute(const Call& call) {
  Results results{after(call, MemoryBoundFamily::Vectorized), {}};
  EXPECT_TRUE(after(call, MemoryBoundFamily::Vectorized) == results.vectorized)
      << "other bits again";
  results.reference = after(call, MemoryBoundFamily::Reference);
  return results;
}

void Pool::expectReferenceBits(const Call& call, const std::string& what) {
  const Results results = compute(call);
  EXPECT_FALSE(results.reference == image_) << what << " does nothing";
  EXPECT_TRUE(results.vectorized == results.reference) << what;
}

}  // namespace tutti::parallel::cuda
