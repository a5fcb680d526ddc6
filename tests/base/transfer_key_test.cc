// The word by which the two ends of a transfer compare it.

#include "src/base/transfer_key.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::base {
namespace {

TEST(TransferKey, HasTheTypeAndTheBytes) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4}, kMostTransferBytes}) {
    const uint64_t key = transferKey(DataType::Float8E5M2, bytes);
    EXPECT_EQ(typeOf(key), DataType::Float8E5M2);
    EXPECT_EQ(bytesOf(key), bytes);
    EXPECT_EQ(transferKey(upperHalf(key), lowerHalf(key)), key);
    EXPECT_NE(upperHalf(key) & kExchangeBit, 0U);
  }
}

TEST(TransferKey, DiffersByEachOfThem) {
  const uint64_t key = transferKey(DataType::Float32, 64);
  for (const uint64_t other : {transferKey(DataType::Int32, 64), transferKey(DataType::Float32, 68),
                               transferKey(DataType::Float32, 64, 3)})
    EXPECT_NE(other, key);
  EXPECT_EQ(bytesOf(transferKey(DataType::Float32, 64, 255)), 64U);
  EXPECT_EQ(typeOf(transferKey(DataType::Float32, 64, 255)), DataType::Float32);
}

TEST(TransferKey, IsDescribedInElements) {
  EXPECT_EQ(describeTransfer(transferKey(DataType::Float32, 64)), "16 float32");
  EXPECT_EQ(describeTransfer(transferKey(DataType::Int8, 0)), "0 int8");
  EXPECT_EQ(describeTransfer(transferKey(DataType::Float64, 12)), "12 bytes of type 11");
  EXPECT_EQ(describeTransfer(transferKey(static_cast<DataType>(99), 12)), "12 bytes of type 99");
}

}  // namespace
}  // namespace tutti::base
