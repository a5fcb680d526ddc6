// NCCL's numbers of types and operators in Tutti's terms, and reductions that a program makes.

#include "src/nccl/reductions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "tests/nccl/refusal.h"
#include "tests/support/text.h"

namespace tutti::nccl {
namespace {

using tests::contains;

TEST(NcclTypes, AreThoseOfTutti) {
  EXPECT_EQ(dataTypeOf(ncclInt8), DataType::Int8);
  EXPECT_EQ(dataTypeOf(ncclUint64), DataType::UInt64);
  EXPECT_EQ(dataTypeOf(ncclFloat16), DataType::Float16);
  EXPECT_EQ(dataTypeOf(ncclFloat32), DataType::Float32);
  EXPECT_EQ(dataTypeOf(ncclFloat64), DataType::Float64);
  EXPECT_EQ(dataTypeOf(ncclBfloat16), DataType::BFloat16);
  EXPECT_EQ(dataTypeOf(ncclFloat8e5m2), DataType::Float8E5M2);
  for (const int type : {-1, static_cast<int>(ncclNumTypes), 1 << 30})
    EXPECT_EQ(refusal([=] { dataTypeOf(type); }),
              "invalid argument: datatype " + std::to_string(type) + " is not one of 0..11");
}

TEST(NcclReductions, ThatAreBuiltInAreForAllTypes) {
  Reductions reductions;
  EXPECT_EQ(reductions.find(ncclSum, ncclFloat32).op, ReduceOp::Sum);
  EXPECT_EQ(reductions.find(ncclProd, ncclInt8).op, ReduceOp::Prod);
  EXPECT_EQ(reductions.find(ncclMax, ncclInt8).op, ReduceOp::Max);
  EXPECT_EQ(reductions.find(ncclMin, ncclInt8).op, ReduceOp::Min);
  EXPECT_EQ(reductions.find(ncclAvg, ncclInt8).op, ReduceOp::Avg);
  EXPECT_EQ(refusal([&] { reductions.remove(ncclSum); }),
            "invalid argument: reduction 0 is built in");
  for (const int op : {-1, static_cast<int>(ncclNumOps)})
    EXPECT_TRUE(contains(refusal([&] { reductions.find(op, ncclInt8); }), "is neither built in"));
}

TEST(NcclReductions, OfAScalarReadItNowOrLater) {
  Reductions reductions;
  float scalar = 0.5F;
  const int now = reductions.addPreMulSum(&scalar, ncclFloat32, ncclScalarHostImmediate);
  const int later = reductions.addPreMulSum(&scalar, ncclFloat32, ncclScalarDevice);
  scalar = 2;
  const ReductionFacts read = reductions.find(now, ncclFloat32);
  EXPECT_EQ(read.op, ReduceOp::PreMulSum);
  EXPECT_EQ(read.scalar, 0.5);
  EXPECT_EQ(read.scalarAt, nullptr);
  EXPECT_EQ(reductions.find(later, ncclFloat32).scalarAt, &scalar);
  EXPECT_TRUE(contains(refusal([&] { reductions.find(now, ncclFloat64); }),
                       "was made for datatype 7, and the call's is 8"));
}

TEST(NcclReductions, AreOfOneCommunicator) {
  Reductions mine, others;
  const float scalar = 1;
  std::set<int> handles;
  for (Reductions* reductions : {&mine, &others, &mine})
    handles.insert(reductions->addPreMulSum(&scalar, ncclFloat32, ncclScalarHostImmediate));
  EXPECT_EQ(handles.size(), 3U);
  const int first = *handles.begin();
  EXPECT_TRUE(contains(refusal([&] { others.find(first, ncclFloat32); }), "is neither built in"));
  EXPECT_TRUE(contains(refusal([&] { others.remove(first); }), "was not made for this"));
  mine.remove(first);
  EXPECT_TRUE(contains(refusal([&] { mine.remove(first); }), "was not made for this"));
  EXPECT_TRUE(contains(refusal([&] { mine.find(first, ncclFloat32); }), "is neither built in"));
}

// A double has 53 bits of an integer.
TEST(NcclReductions, RefuseScalarsThatADoubleCannotHold) {
  Reductions reductions;
  const auto said = [&](auto value, int type) {
    return refusal([&] { reductions.addPreMulSum(&value, type, ncclScalarHostImmediate); });
  };
  EXPECT_EQ(said(int64_t{1} << 53, ncclInt64), "accepted");
  EXPECT_EQ(said(INT64_MIN, ncclInt64), "accepted");
  EXPECT_TRUE(contains(said((int64_t{1} << 53) + 1, ncclInt64), "more than 53 significant bits"));
  EXPECT_TRUE(contains(said(INT64_MAX, ncclInt64), "more than 53 significant bits"));
  EXPECT_TRUE(contains(said(UINT64_MAX, ncclUint64), "more than 53 significant bits"));
  EXPECT_EQ(refusal([&] { reductions.addPreMulSum(nullptr, ncclInt8, ncclScalarDevice); }),
            "invalid argument: the scalar is null");
  EXPECT_TRUE(contains(refusal([&] { reductions.addPreMulSum(&reductions, ncclInt8, 7); }),
                       "residence 7 is neither"));
}

}  // namespace
}  // namespace tutti::nccl
