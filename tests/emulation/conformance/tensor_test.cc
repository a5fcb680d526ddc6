// TMA of 1 to 5 dimensions, in every swizzle, loaded inside and across the edges of a tensor,
// stored and added inside: an H200 refuses some boxes that are stored elsewhere, and cuts others by
// rules of its own. Along the contiguous dimension a box begins at a multiple of 16 bytes, on
// either side of the edge. Each place of a box and each number of dimensions is a test of its own:
// what a GPU refuses ends the program.

#include <gtest/gtest.h>

#include <array>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/tensor_device.cuh"

namespace tutti::emulation::conformance {
namespace {

constexpr CUtensorMapSwizzle kSwizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                            CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B};

/// Where byte `offset` of a box lies: chunks of 16 bytes of a line of 128 change places, by the
/// line's number: pairs within 32 bytes, fours within 64, eights within 128.
size_t placed(size_t offset, int swizzle) {
  const size_t line = offset / 128, chunk = offset % 128 / 16, byte = offset % 16;
  const size_t span = size_t(1) << swizzle;  // chunks that change places
  return line * 128 + (chunk / span * span + (chunk % span ^ line % span)) * 16 + byte;
}

/// A dense tensor of `Element`, the contiguous dimension first, whose rows are padded to 16 bytes.
template <class Element, int kRank>
struct Tensor {
  std::array<int, kRank> size;
  size_t pitch;  // elements of a row
  std::vector<Element> values;

  explicit Tensor(std::array<int, kRank> s) : size(s) {
    pitch = (size_t(size[0]) * sizeof(Element) + 15) / 16 * 16 / sizeof(Element);
    size_t rows = 1;
    for (int i = 1; i < kRank; ++i) rows *= size_t(size[size_t(i)]);
    values.resize(rows * pitch);
  }
  Element* find(const std::array<int, kRank>& at) {
    size_t row = 0;
    for (int i = kRank - 1; i >= 0; --i)
      if (at[size_t(i)] < 0 || at[size_t(i)] >= size[size_t(i)]) return nullptr;
    for (int i = kRank - 1; i > 0; --i) row = row * size_t(size[size_t(i)]) + size_t(at[size_t(i)]);
    return &values[row * pitch + size_t(at[0])];
  }
  CUtensorMap map(const DeviceArray<Element>& data, const std::array<int, kRank>& box,
                  CUtensorMapDataType type, CUtensorMapSwizzle swizzle) const {
    TensorBox made{type, data.get(), {}, {}, {}, swizzle};
    size_t stride = pitch * sizeof(Element);
    for (int i = 0; i < kRank; ++i) {
      made.size.push_back(uint64_t(size[size_t(i)]));
      made.box.push_back(uint32_t(box[size_t(i)]));
      if (i == 0) continue;
      made.strideBytes.push_back(stride);
      stride *= size_t(size[size_t(i)]);
    }
    return makeTensorMap(made);
  }
};

/// Calls visit(index in the box) for each element, the contiguous dimension fastest.
template <int kRank, class Visit>
void forEach(const std::array<int, kRank>& box, Visit visit) {
  std::array<int, kRank> index{};
  while (true) {
    visit(index);
    int next = 0;
    while (next < kRank && ++index[size_t(next)] == box[size_t(next)]) index[size_t(next++)] = 0;
    if (next == kRank) return;
  }
}

template <class Element, int kRank>
struct Copy {
  CUtensorMapDataType type;
  std::array<int, kRank> size, box, from, to;
};

template <class Element, int kRank>
void expectCopied(const std::string& name, const Copy<Element, kRank>& copy, int swizzle) {
  Tensor<Element, kRank> source(copy.size), target(copy.size), sum(copy.size);
  source.values = randomIntegers<Element>(source.values.size(), 100, 1);
  sum.values = randomIntegers<Element>(sum.values.size(), 100, 2);
  target.values = sum.values;
  size_t bytes = sizeof(Element);
  for (const int extent : copy.box) bytes *= size_t(extent);
  const DeviceArray<Element> inSource(source.values), inTarget(target.values), inSum(sum.values);
  const auto map = [&](const DeviceArray<Element>& data) {
    return source.map(data, copy.box, copy.type, kSwizzles[swizzle]);
  };
  Coordinates<kRank> from, to;
  std::copy(copy.from.begin(), copy.from.end(), from.at);
  std::copy(copy.to.begin(), copy.to.end(), to.at);
  const auto words = outputOf<uint32_t>(
      bytes / 4, tensorCopies<kRank>, {.block = dim3(64), .dynamicSharedBytes = bytes},
      map(inSource), map(inTarget), map(inSum), from, to, uint32_t(bytes));
  std::vector<Element> box(bytes / sizeof(Element));
  size_t number = 0;
  forEach<kRank>(copy.box, [&](const std::array<int, kRank>& index) {
    auto at = index, there = index;
    for (size_t i = 0; i < kRank; ++i) at[i] += copy.from[i], there[i] += copy.to[i];
    const Element* const found = source.find(at);
    const Element value = found != nullptr ? *found : Element(0.0f);
    box[placed(number++ * sizeof(Element), swizzle) / sizeof(Element)] = value;
    Element* const added = sum.find(there);
    *target.find(there) = value;
    *added = Element(*added + value);
  });
  const auto same = [](const auto& a, const auto& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
  };
  ASSERT_TRUE(same(words, std::vector<uint32_t>(words)) &&
              std::memcmp(words.data(), box.data(), bytes) == 0)
      << name << ": the box in shared memory";
  ASSERT_TRUE(same(inTarget.download(), target.values)) << name << ": what was stored";
  ASSERT_TRUE(same(inSum.download(), sum.values)) << name << ": what was added";
  expectGolden(name + "_box", words);
  expectGolden(name + "_stored", inTarget.download());
  expectGolden(name + "_added", inSum.download());
}

/// Inner extents that fill 16, 32, 64 and 128 bytes.
constexpr int kInner[] = {16, 32, 64, 128};

/// Where a box is loaded from, and where it is stored and added.
struct Places {
  const char* name;
  std::array<int, 2> from, to;
};
constexpr Places kPlaces[] = {{"inside", {8, 5}, {16, 2}},
                              {"loaded_across_the_end", {80, 20}, {32, 6}},
                              {"loaded_beyond_the_end", {200, 1}, {8, 5}},
                              {"loaded_across_the_beginning", {-8, -3}, {8, 5}},
                              {"stored_at_the_beginning", {16, 2}, {0, 0}}};

class TensorBoxes : public testing::TestWithParam<Places> {
 protected:
  template <class Element>
  void expectAllSwizzles(const std::string& type, CUtensorMapDataType number,
                         const std::array<int, 2>& size, int rows) {
    const auto& [name, from, to] = GetParam();
    for (int swizzle = 0; swizzle < 4; ++swizzle)
      expectCopied<Element, 2>(
          "tensor_2d_" + type + "_" + std::to_string(swizzle) + "_" + name,
          {number, size, {kInner[swizzle] / int(sizeof(Element)), rows}, from, to}, swizzle);
  }
};

TEST_P(TensorBoxes, OfBf16AreCopiedInEverySwizzle) {
  expectAllSwizzles<__nv_bfloat16>("bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, {100, 30}, 24);
}

TEST_P(TensorBoxes, OfFloatsAreCopiedInEverySwizzle) {
  expectAllSwizzles<float>("f32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, {90, 27}, 16);
}

INSTANTIATE_TEST_SUITE_P(Places, TensorBoxes, testing::ValuesIn(kPlaces),
                         [](const auto& place) { return std::string(place.param.name); });

constexpr auto kF16 = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;

TEST(Tensor, IsCopiedInOneDimension) {
  expectCopied<__half, 1>("tensor_1d", {kF16, {100}, {64}, {48}, {32}}, 0);
}

TEST(Tensor, IsCopiedInThreeDimensions) {
  expectCopied<__half, 3>("tensor_3d", {kF16, {70, 9, 5}, {64, 4, 3}, {16, 6, -1}, {0, 5, 2}}, 3);
}

TEST(Tensor, IsCopiedInFourDimensions) {
  expectCopied<__half, 4>("tensor_4d",
                          {kF16, {40, 5, 4, 3}, {32, 3, 2, 2}, {8, 3, 1, -1}, {8, 2, 2, 1}}, 2);
}

TEST(Tensor, IsCopiedInFiveDimensions) {
  expectCopied<__half, 5>(
      "tensor_5d", {kF16, {20, 4, 3, 3, 2}, {16, 2, 2, 2, 2}, {8, 1, 2, -1, 0}, {0, 2, 1, 1, 0}},
      1);
}

/// Each block loads a quarter of a tensor without gaps, along its last dimension.
template <int kRank>
void expectMulticast(const std::string& name, const std::array<int, kRank>& size, int swizzle) {
  Tensor<__nv_bfloat16, kRank> source(size);
  source.values = randomIntegers<__nv_bfloat16>(source.values.size(), 100, 3);
  const DeviceArray<__nv_bfloat16> data(source.values);
  const uint32_t bytes = uint32_t(source.values.size() * 2 / 4);
  auto box = size;
  box[kRank - 1] /= 4;
  const auto out = outputOf<uint32_t>(
      4 * bytes, tensorMulticast<kRank>,
      {.grid = dim3(4), .block = dim3(64), .cluster = dim3(4), .dynamicSharedBytes = 4 * bytes},
      source.map(data, box, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kSwizzles[swizzle]), box[kRank - 1],
      bytes);
  std::vector<char> whole(4 * bytes);
  for (size_t i = 0; i < 4 * bytes; ++i)
    whole[placed(i, swizzle)] = reinterpret_cast<const char*>(source.values.data())[i];
  for (size_t rank = 0; rank < 4; ++rank)
    ASSERT_EQ(std::memcmp(out.data() + rank * bytes, whole.data(), 4 * bytes), 0)
        << name << " " << rank;
  expectGolden(name, out);
}

TEST(Tensor, IsMulticastToACluster) { expectMulticast<2>("tensor_multicast", {64, 32}, 3); }

TEST(Tensor, IsMulticastInEveryNumberOfDimensions) {
  expectMulticast<1>("tensor_multicast_1d", {1024}, 0);
  expectMulticast<3>("tensor_multicast_3d", {32, 4, 16}, 0);
  expectMulticast<4>("tensor_multicast_4d", {16, 4, 4, 8}, 0);
  expectMulticast<5>("tensor_multicast_5d", {8, 4, 2, 4, 8}, 0);
}

/// A map of one tensor is replaced by that of another, with another swizzle.
TEST(Tensor, MapInGlobalMemoryIsReplaced) {
  constexpr int kSwizzle[] = {2, 0};
  constexpr uint32_t kBytes = 2 * 32 * 24;
  std::vector<CUtensorMap> maps;
  std::vector<DeviceArray<__nv_bfloat16> > data;
  std::vector<char> expected(2 * kBytes);
  for (size_t i = 0; i < 2; ++i) {
    Tensor<__nv_bfloat16, 2> source({32, 24});
    source.values = randomIntegers<__nv_bfloat16>(source.values.size(), 100, 4 + i);
    data.emplace_back(source.values);
    maps.push_back(source.map(data.back(), source.size, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                              kSwizzles[kSwizzle[i]]));
    for (size_t byte = 0; byte < kBytes; ++byte)
      expected[i * kBytes + placed(byte, kSwizzle[i])] =
          reinterpret_cast<const char*>(source.values.data())[byte];
  }
  const DeviceArray<CUtensorMap> map(std::vector{maps[0]}), next(std::vector{maps[1]});
  const DeviceArray<uint32_t> turn(std::vector<uint32_t>{0});
  const auto out = outputOf<uint32_t>(
      kBytes / 2, replacedMap, {.grid = dim3(2), .block = dim3(64), .dynamicSharedBytes = kBytes},
      map.get(), next.get(), turn.get(), kBytes);
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), 2 * kBytes), 0);
  expectGolden("tensor_map_replaced", out);
}

}  // namespace
}  // namespace tutti::emulation::conformance
