// Element types and reductions, by number and by name.

#include <tutti/types.h>

#include <gtest/gtest.h>

#include <set>
#include <string>

#include <tutti/error.h>

namespace tutti {
namespace {

TEST(DataTypes, HaveSizesAndNamesThatLeadBack) {
  std::set<std::string> names;
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    const std::string name = toString(type);
    names.insert(name);
    EXPECT_EQ(parseDataType(name), type) << name;
    // "float32" has 32 bits, "float8_e4m3" has 8.
    const std::string bits = name.substr(name.find_first_of("0123456789"));
    EXPECT_EQ(sizeOf(type) * 8, std::stoul(bits)) << name;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kDataTypeCount));
  for (const char* wrong : {"", "float", "Float32", "float32 "})
    EXPECT_FALSE(parseDataType(wrong)) << wrong;
}

TEST(ReduceOps, HaveNamesThatLeadBack) {
  std::set<std::string> names;
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    names.insert(toString(op));
    EXPECT_EQ(parseReduceOp(toString(op)), op);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kReduceOpCount));
  EXPECT_FALSE(parseReduceOp("average"));
}

TEST(ReduceOps, OfBitsAndOfTruthAreForIntegersOnly) {
  for (const ReduceOp op : {ReduceOp::BitAnd, ReduceOp::BitXor, ReduceOp::LogicalOr}) {
    EXPECT_TRUE(isDefined(op, DataType::Int8));
    EXPECT_TRUE(isDefined(op, DataType::UInt64));
    EXPECT_FALSE(isDefined(op, DataType::Float16));
    EXPECT_FALSE(isDefined(op, DataType::Float8E5M2));
  }
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::PreMulSum})
    EXPECT_TRUE(isDefined(op, DataType::Float8E4M3));
}

// A number that was cast to an enumeration.
TEST(Enumerations, RefuseOtherNumbers) {
  const auto type = static_cast<DataType>(kDataTypeCount);
  const auto op = static_cast<ReduceOp>(kReduceOpCount);
  EXPECT_THROW(sizeOf(type), Error);
  EXPECT_THROW(toString(type), Error);
  EXPECT_THROW(isDefined(ReduceOp::Sum, type), Error);
  EXPECT_THROW(isDefined(op, DataType::Int8), Error);
  try {
    toString(op);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(), "there is no reduction 12: the last is 11");
  }
}

}  // namespace
}  // namespace tutti
