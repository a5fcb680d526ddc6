#include "src/executor/kernel/types.h"

#include <tutti/types.h>

namespace tutti::executor::kernel {
namespace {

constexpr bool isNumbered(Type ours, DataType theirs) { return ours == static_cast<int>(theirs); }
constexpr bool isNumbered(Op ours, ReduceOp theirs) { return ours == static_cast<int>(theirs); }

static_assert(isNumbered(kInt8, DataType::Int8));
static_assert(isNumbered(kUInt8, DataType::UInt8));
static_assert(isNumbered(kInt16, DataType::Int16));
static_assert(isNumbered(kUInt16, DataType::UInt16));
static_assert(isNumbered(kInt32, DataType::Int32));
static_assert(isNumbered(kUInt32, DataType::UInt32));
static_assert(isNumbered(kInt64, DataType::Int64));
static_assert(isNumbered(kUInt64, DataType::UInt64));
static_assert(isNumbered(kFloat16, DataType::Float16));
static_assert(isNumbered(kBFloat16, DataType::BFloat16));
static_assert(isNumbered(kFloat32, DataType::Float32));
static_assert(isNumbered(kFloat64, DataType::Float64));
static_assert(isNumbered(kFloat8E4M3, DataType::Float8E4M3));
static_assert(isNumbered(kFloat8E5M2, DataType::Float8E5M2));
static_assert(kDataTypeCount == kFloat8E5M2 + 1);

static_assert(isNumbered(kSum, ReduceOp::Sum));
static_assert(isNumbered(kProd, ReduceOp::Prod));
static_assert(isNumbered(kMin, ReduceOp::Min));
static_assert(isNumbered(kMax, ReduceOp::Max));
static_assert(isNumbered(kAvg, ReduceOp::Avg));
static_assert(isNumbered(kPreMulSum, ReduceOp::PreMulSum));
static_assert(isNumbered(kBitAnd, ReduceOp::BitAnd));
static_assert(isNumbered(kBitOr, ReduceOp::BitOr));
static_assert(isNumbered(kBitXor, ReduceOp::BitXor));
static_assert(isNumbered(kLogicalAnd, ReduceOp::LogicalAnd));
static_assert(isNumbered(kLogicalOr, ReduceOp::LogicalOr));
static_assert(isNumbered(kLogicalXor, ReduceOp::LogicalXor));
static_assert(kReduceOpCount == kLogicalXor + 1);

}  // namespace
}  // namespace tutti::executor::kernel
