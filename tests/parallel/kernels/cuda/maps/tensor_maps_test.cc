// Tensor maps of operands: what TMA can address, and maps as the emulated driver encodes them.

#include "parallel/kernels/cuda/maps/tensor_maps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include <tutti/error.h>

#include "tests/emulation/tensor_map.h"

namespace tutti::parallel::cuda {
namespace {

class Maps : public testing::Test {
 protected:
  MappedTensor tensor() {
    return {.data = data_,
            .format = ElementFormat::BFloat16,
            .size = {60, 5, 3},
            .stride = {64, 320},
            .box = {64, 4, 1}};
  }
  static emulation::TensorMap read(const CUtensorMap& map) {
    emulation::TensorMap found;
    std::memcpy(static_cast<void*>(&found), &map, sizeof found);
    return found;
  }
  alignas(16) char data_[2048];
  TensorMaps maps_;
};

TEST_F(Maps, AreOfAddressesAndStridesOf16Bytes) {
  EXPECT_TRUE(isMappable(data_, {8, 64}));
  EXPECT_TRUE(isMappable(data_, {64, 64}));
  EXPECT_TRUE(isMappable(data_, {}));
  EXPECT_FALSE(isMappable(data_ + 2, {8}));
  EXPECT_FALSE(isMappable(data_ + 8, {8}));
  EXPECT_FALSE(isMappable(data_, {4})) << "8 bytes";
  EXPECT_FALSE(isMappable(data_, {16, 24})) << "no multiple of the one before";
  EXPECT_FALSE(isMappable(data_, {0}));
  EXPECT_FALSE(isMappable(data_, {-8}));
  EXPECT_TRUE(isMappable(data_, {(int64_t{1} << 39) - 8}));
  EXPECT_FALSE(isMappable(data_, {int64_t{1} << 39}));
}

TEST_F(Maps, SayWhatTheTensorIs) {
  const emulation::TensorMap map = read(maps_.of(tensor()));
  EXPECT_EQ(map.base, data_);
  EXPECT_EQ(map.rank, 3);
  EXPECT_EQ(map.elementBytes, 2);
  EXPECT_EQ(map.type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(map.size[i], static_cast<uint64_t>(tensor().size[i])) << i;
    EXPECT_EQ(map.box[i], tensor().box[i]) << i;
  }
  EXPECT_EQ(map.strideBytes[1], 128U);
  EXPECT_EQ(map.strideBytes[2], 640U);
}

TEST_F(Maps, AreSwizzledAsWideAsTheBoxesRows) {
  MappedTensor x = tensor();
  x.format = ElementFormat::Float16;
  EXPECT_EQ(read(maps_.of(x)).type, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  const auto swizzle = [&](int32_t columns) {
    x.box[0] = columns;
    return static_cast<tutti::cuda::ptx::Swizzle>(read(maps_.of(x)).swizzle);
  };
  EXPECT_EQ(swizzle(64), tutti::cuda::ptx::Swizzle::Bytes128);
  EXPECT_EQ(swizzle(32), tutti::cuda::ptx::Swizzle::Bytes64);
  EXPECT_EQ(swizzle(16), tutti::cuda::ptx::Swizzle::Bytes32);
  EXPECT_THROW(swizzle(48), Error);
}

TEST_F(Maps, AreThoseOfTheirTensorEachTime) {
  MappedTensor other = tensor();
  other.size[0] = 59;
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(read(maps_.of(tensor())).size[0], 60U);
    EXPECT_EQ(read(maps_.of(other)).size[0], 59U);
  }
}

TEST_F(Maps, ThatTheDriverRefusesAreNamed) {
  MappedTensor x = tensor();
  x.stride[0] = 63;
  try {
    maps_.of(x);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Cuda);
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("cuTensorMapEncodeTiled of 3 (320 apart) x 5 (63 apart) x 60: "))
        << error.what();
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
