// wgmma: every number of columns, type, major-ness and swizzle, a in shared memory and in
// registers. Operands are laid out here by the canonical layouts of the PTX ISA ("Strides" and
// "Shared Memory Matrix Layout" of wgmma), element by element.

#include <gtest/gtest.h>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/matrix_model.h"
#include "tests/emulation/conformance/wgmma_device.cuh"

namespace tutti::emulation::conformance {
namespace {

using cuda::ptx::Major;

/// Bytes of an atom's row for each of the descriptor's swizzles: none, 128, 64, 32.
constexpr uint32_t kWidth[] = {16, 128, 64, 32};

uint32_t swizzledOffset(uint32_t offset, int swizzle) {
  const uint32_t line = offset / 128, chunk = offset % 128 / 16, chunks = kWidth[swizzle] / 16;
  return line * 128 + (chunk / chunks * chunks + (chunk % chunks ^ line % chunks)) * 16 +
         offset % 16;
}

/// An operand, [rows][depth], as it lies in shared memory.
struct Image {
  Layout layout;
  std::vector<uint32_t> words;

  uint32_t chunks() const { return uint32_t(words.size() / 4); }
};

/// Where an element of `size` bytes lies.
uint32_t offsetOf(Major major, const Layout& layout, uint32_t row, uint32_t k, uint32_t size) {
  const uint32_t width = kWidth[layout.swizzle], perChunk = 16 / size, perWidth = width / size;
  if (major == Major::K && layout.swizzle == 0)
    return row / 8 * layout.stride + row % 8 * 16 + k / perChunk * layout.leading +
           k % perChunk * size;
  if (major == Major::K) return row / 8 * layout.stride + row % 8 * width + k * size;
  if (layout.swizzle == 0)
    return row / 8 * layout.stride + k / 8 * layout.leading + k % 8 * 16 + row % 8 * size;
  return row / perWidth * layout.leading + k / 8 * layout.stride + k % 8 * width +
         row % perWidth * size;
}

Layout layoutOf(Major major, int swizzle) {
  const uint32_t width = kWidth[swizzle];
  if (swizzle == 0) return {128, 256, 0};
  return major == Major::K ? Layout{16, 8 * width, swizzle}
                           : Layout{16 * width, 8 * width, swizzle};
}

template <class T>
Image imageOf(const Grid<T>& rowsByDepth, Major major, int swizzle) {
  Image image{layoutOf(major, swizzle), {}};
  std::vector<char> bytes(1024 * 16 * 2);
  uint32_t end = 0;
  for (int row = 0; row < rowsByDepth.rows; ++row)
    for (int k = 0; k < rowsByDepth.columns; ++k) {
      const uint32_t at = swizzledOffset(
          offsetOf(major, image.layout, uint32_t(row), uint32_t(k), sizeof(T)), swizzle);
      std::memcpy(&bytes[at], &rowsByDepth.at(row, k), sizeof(T));
      end = std::max(end, at + uint32_t(sizeof(T)));
    }
  image.words.resize((end + 15) / 16 * 4);
  std::memcpy(image.words.data(), bytes.data(), image.words.size() * 4);
  return image;
}

/// Figure of the accumulator: row and column of thread t's register i.
int rowOfD(int t, int i) { return t / 32 * 16 + t % 32 / 4 + (i % 4 >= 2 ? 8 : 0); }
int columnOfD(int t, int i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

/// Figure of a in registers: for 16-bit types as m16n8k16's, for tf32 as m16n8k8's, for each warp.
template <class T>
std::vector<uint32_t> registersOf(const Grid<T>& a) {
  std::vector<uint32_t> words;
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < 4; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + (i % 2 == 1 ? 8 : 0);
      if constexpr (sizeof(T) == 4) {
        uint32_t bits;
        std::memcpy(&bits, &a.at(row, t % 4 + (i >= 2 ? 4 : 0)), 4);
        words.push_back(bits);
      } else {
        const int k = t % 4 * 2 + (i >= 2 ? 8 : 0);
        words.push_back(pairOf(bitsOf(a.at(row, k)), bitsOf(a.at(row, k + 1))));
      }
    }
  return words;
}

template <Wg kType>
using ElementOf = std::conditional_t<kType == Wg::Bf16, __nv_bfloat16,
                                     std::conditional_t<kType == Wg::F16, __half, float>>;

template <Wg kType, int kColumns, Major kA, Major kB, bool kInRegisters>
void expectProduct(int aSwizzle, int bSwizzle) {
  using T = ElementOf<kType>;
  constexpr int kDepth = kType == Wg::Tf32 ? 8 : 16, kRegisters = kColumns / 2;
  const Grid<T> a(64, kDepth, randomIntegers<T>(64 * kDepth, 4, kColumns));
  const Grid<T> bByColumns(kColumns, kDepth, randomIntegers<T>(kColumns * kDepth, 4, 2));
  const Image aImage = imageOf(a, kA, aSwizzle), bImage = imageOf(bByColumns, kB, bSwizzle);
  const auto d = randomIntegers<float>(128 * kRegisters, 100, 3);
  const DeviceArray<uint32_t> aWords(aImage.words), bWords(bImage.words), registers(registersOf(a));
  const DeviceArray<float> sums(d);
  const WgmmaOperands operands{reinterpret_cast<const uint4*>(aWords.get()),
                               reinterpret_cast<const uint4*>(bWords.get()),
                               aImage.chunks(),
                               bImage.chunks(),
                               aImage.layout,
                               bImage.layout,
                               registers.get(),
                               sums.get()};
  for (int accumulates = 0; accumulates < 2; ++accumulates) {
    const auto out = outputOf<float>(
        128 * kRegisters, wgmmas<kType, kColumns, kA, kB, kInRegisters>,
        {.block = dim3(128), .dynamicSharedBytes = 48 << 10}, operands, accumulates);
    const std::string name = "wgmma_" + std::to_string(int(kType)) + "_n" +
                             std::to_string(kColumns) + "_" + std::to_string(int(kA)) +
                             std::to_string(int(kB)) +
                             (kInRegisters ? "_registers" : "_" + std::to_string(aSwizzle)) + "_" +
                             std::to_string(bSwizzle) + (accumulates ? "_added" : "");
    for (int t = 0; t < 128; ++t)
      for (int i = 0; i < kRegisters; ++i) {
        float expected = accumulates ? d[size_t(t * kRegisters + i)] : 0;
        for (int k = 0; k < kDepth; ++k)
          expected += 2 * float(a.at(rowOfD(t, i), k)) * float(bByColumns.at(columnOfD(t, i), k));
        ASSERT_EQ(out[size_t(t * kRegisters + i)], expected) << name << " " << t << " " << i;
      }
    expectGolden(name, out);
  }
}

template <int... kEighth>
void expectColumns(std::integer_sequence<int, kEighth...>) {
  (expectProduct<Wg::Bf16, 8 * (kEighth + 1), Major::K, Major::K, false>(1, 1), ...);
}

TEST(Wgmma, HasEveryNumberOfColumns) { expectColumns(std::make_integer_sequence<int, 32>{}); }

template <Wg kType, Major kA, Major kB>
void expectSwizzles() {
  for (int swizzle = 0; swizzle < 4; ++swizzle) {
    expectProduct<kType, 64, kA, kB, false>(swizzle, 3 - swizzle);
    expectProduct<kType, 136, kA, kB, false>(swizzle, swizzle ^ 1);
  }
}

TEST(Wgmma, ReadsOperandsOfBothMajors) {
  expectSwizzles<Wg::Bf16, Major::K, Major::K>();
  expectSwizzles<Wg::Bf16, Major::K, Major::Mn>();
  expectSwizzles<Wg::Bf16, Major::Mn, Major::K>();
  expectSwizzles<Wg::Bf16, Major::Mn, Major::Mn>();
  expectSwizzles<Wg::F16, Major::K, Major::K>();
  expectSwizzles<Wg::F16, Major::Mn, Major::Mn>();
}

TEST(Wgmma, MultipliesTf32) {
  expectSwizzles<Wg::Tf32, Major::K, Major::K>();
  expectProduct<Wg::Tf32, 64, Major::K, Major::K, true>(0, 1);
}

TEST(Wgmma, TakesAFromRegisters) {
  expectProduct<Wg::Bf16, 128, Major::K, Major::K, true>(0, 1);
  expectProduct<Wg::Bf16, 128, Major::K, Major::Mn, true>(0, 1);
  expectProduct<Wg::F16, 64, Major::K, Major::K, true>(0, 2);
  expectProduct<Wg::F16, 64, Major::K, Major::Mn, true>(0, 3);
}

}  // namespace
}  // namespace tutti::emulation::conformance
