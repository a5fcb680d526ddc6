#pragma once

// Tensors as Tutti's buffers: element types, reductions, and memory in one piece. Included by
// backend.cc alone.

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tutti/types.h>

namespace tutti_torch {

inline std::optional<tutti::DataType> numberType(at::ScalarType type) {
  using tutti::DataType;
  switch (type) {
    case at::kBool:
    case at::kByte: return DataType::UInt8;
    case at::kChar: return DataType::Int8;
    case at::kShort: return DataType::Int16;
    case at::kUInt16: return DataType::UInt16;
    case at::kInt: return DataType::Int32;
    case at::kUInt32: return DataType::UInt32;
    case at::kLong: return DataType::Int64;
    case at::kUInt64: return DataType::UInt64;
    case at::kHalf: return DataType::Float16;
    case at::kBFloat16: return DataType::BFloat16;
    case at::kFloat: return DataType::Float32;
    case at::kDouble: return DataType::Float64;
    case at::kFloat8_e4m3fn: return DataType::Float8E4M3;
    case at::kFloat8_e5m2: return DataType::Float8E5M2;
    default: return std::nullopt;
  }
}

/// A tensor as elements. What is only moved may be of any type: then it is bytes.
struct TensorElements {
  void* data;
  size_t count;
  tutti::DataType type;
};

inline TensorElements elementsOf(const at::Tensor& tensor) {
  const auto type = numberType(tensor.scalar_type());
  const auto count = static_cast<size_t>(tensor.numel());
  if (type) return {tensor.data_ptr(), count, *type};
  return {tensor.data_ptr(), count * tensor.element_size(), tutti::DataType::UInt8};
}

/// A reduction as Tutti's.
struct TensorReduction {
  tutti::ReduceOp op = tutti::ReduceOp::Sum;
  double scalar = 1.0;
  at::Tensor scalarAt = {};  // kept while the call runs
};

// Of bool, a sum is "any" and a product "all", as with NCCL.
inline TensorReduction reducingOf(const char* call, const c10d::ReduceOp& op, at::ScalarType type) {
  using tutti::ReduceOp;
  const bool isBool = type == at::kBool;
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return {isBool ? ReduceOp::Max : ReduceOp::Sum};
    case c10d::ReduceOp::PRODUCT: return {isBool ? ReduceOp::Min : ReduceOp::Prod};
    case c10d::ReduceOp::MIN: return {ReduceOp::Min};
    case c10d::ReduceOp::MAX: return {ReduceOp::Max};
    case c10d::ReduceOp::BAND: return {ReduceOp::BitAnd};
    case c10d::ReduceOp::BOR: return {ReduceOp::BitOr};
    case c10d::ReduceOp::BXOR: return {ReduceOp::BitXor};
    case c10d::ReduceOp::AVG:
      TORCH_CHECK_TYPE(!isBool, "tutti ", call, ": AVG is not defined for bool");
      return {ReduceOp::Avg};
    case c10d::ReduceOp::PREMUL_SUM: {
      TORCH_CHECK_TYPE(!isBool, "tutti ", call, ": PREMUL_SUM is not defined for bool");
      const auto* const factor =
          dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      TORCH_CHECK_VALUE(factor, "tutti ", call, ": PREMUL_SUM has no factor");
      const double scalar = factor->tensor_factor.defined() ? factor->tensor_factor.item<double>()
                                                            : factor->double_factor;
      return {ReduceOp::PreMulSum, scalar};
    }
    default:
      TORCH_CHECK_VALUE(false, "tutti ", call, ": unknown reduction ", static_cast<int>(op.op_));
  }
}

inline void checkNumbers(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (!tensor.is_complex()) {
    const auto type = numberType(tensor.scalar_type());
    TORCH_CHECK_TYPE(type, "tutti ", call, ": no reduction of ", tensor.scalar_type());
    return;
  }
  const bool isSum = op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG ||
                     op.op_ == c10d::ReduceOp::PREMUL_SUM;
  TORCH_CHECK_TYPE(isSum, "tutti ", call, ": complex numbers take SUM, AVG and PREMUL_SUM");
}

/// What a reduction sees: complex numbers as pairs.
inline at::Tensor asNumbers(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

inline void checkTensor(const char* call, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), "tutti ", call, ": a tensor is undefined");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "tutti ", call,
                    ": a tensor must be dense, and one is ", tensor.layout());
}

/// Of a tensor that a call writes.
inline void checkOutput(const char* call, const at::Tensor& tensor) {
  checkTensor(call, tensor);
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "tutti ", call,
                    ": elements of an output tensor share memory, as after expand(); pass a "
                    "clone() of it");
}

inline const at::Tensor& single(const char* call, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "tutti ", call, ": takes 1 tensor, not ", tensors.size());
  checkTensor(call, tensors[0]);
  return tensors[0];
}

/// Copies `from` into `to`, on any thread. Tensors of torch.inference_mode() are written in that
/// mode alone, and it is off on the threads of a queue.
inline void copyInto(const at::Tensor& to, const at::Tensor& from) {
  at::NoGradGuard noGrad;
  std::optional<c10::InferenceMode> mode;
  if (to.is_inference()) mode.emplace();
  to.copy_(from);
}

/// A tensor in one piece, as its values are in memory: itself, or a copy.
class Dense {
 public:
  explicit Dense(at::Tensor tensor)
      : original_(std::move(tensor)), dense_(original_.contiguous().resolve_conj().resolve_neg()) {}
  const at::Tensor& tensor() const { return dense_; }
  bool isCopy() const { return !dense_.is_same(original_); }
  /// Brings a result to where the program looks for it.
  void giveBack() const { giveBack(dense_); }
  /// The same for a result that may be in a copy of tensor().
  void giveBack(const at::Tensor& result) const {
    if (!result.is_same(original_)) copyInto(original_, result);
  }

 private:
  at::Tensor original_, dense_;
};

/// `tensor`, or a copy of it if it shares memory with `other`. With `place` it may lie so many
/// bytes behind the begin of `other`: that is in place.
inline at::Tensor apart(const at::Tensor& tensor, const TensorElements& other,
                        std::optional<size_t> place) {
  const auto* const begin = static_cast<const std::byte*>(tensor.data_ptr());
  const auto* const otherBegin = static_cast<const std::byte*>(other.data);
  const size_t bytes = tensor.nbytes(), otherBytes = other.count * tutti::sizeOf(other.type);
  const bool overlaps =
      bytes > 0 && otherBytes > 0 && begin < otherBegin + otherBytes && otherBegin < begin + bytes;
  if (!overlaps || (place && begin == otherBegin + *place)) return tensor;
  at::NoGradGuard noGrad;
  return tensor.clone();
}

/// Tensors one behind the other in memory: where they are, if they lie so, or in a copy.
class Row {
 public:
  /// With `filled`, the call reads them, and a copy has their data; otherwise it writes them.
  Row(const char* call, std::vector<at::Tensor> tensors, bool filled)
      : tensors_(std::move(tensors)) {
    int64_t total = 0;
    for (const auto& each : tensors_) {
      filled ? checkTensor(call, each) : checkOutput(call, each);
      TORCH_CHECK_TYPE(each.scalar_type() == tensors_[0].scalar_type(), "tutti ", call,
                       ": tensors of types ", each.scalar_type(), " and ",
                       tensors_[0].scalar_type());
      counts_.push_back(each.numel());
      total += each.numel();
    }
    if (liesInARow()) return;
    copy_ = at::empty({total}, tensors_[0].options().requires_grad(false));
    if (filled)
      exchange(
          [](const at::Tensor& part, const at::Tensor& original) { copyInto(part, original); });
  }

  TensorElements elements() const {
    if (copy_.defined()) return elementsOf(copy_);
    TensorElements all{nullptr, 0, tutti::DataType::UInt8};
    for (const auto& each : tensors_) {
      const TensorElements part = elementsOf(each);
      if (part.count > 0 && !all.data) all.data = part.data;
      all.count += part.count;
      all.type = part.type;
    }
    return all;
  }
  /// Of each tensor, in what elements() counts.
  std::vector<size_t> counts() const {
    std::vector<size_t> counts;
    for (const auto& each : tensors_) counts.push_back(elementsOf(each).count);
    return counts;
  }
  /// Bytes before that tensor.
  size_t offsetOf(int index) const {
    size_t bytes = 0;
    for (size_t i = 0; i < static_cast<size_t>(index); ++i) bytes += tensors_[i].nbytes();
    return bytes;
  }
  bool isEven() const {
    return std::all_of(counts_.begin(), counts_.end(),
                       [&](int64_t count) { return count == counts_[0]; });
  }
  void giveBack() const {
    if (copy_.defined())
      exchange(
          [](const at::Tensor& part, const at::Tensor& original) { copyInto(original, part); });
  }

 private:
  bool liesInARow() const {
    const char* next = nullptr;
    for (const auto& each : tensors_) {
      if (each.numel() == 0) continue;
      const char* const begin = static_cast<const char*>(each.data_ptr());
      if (!each.is_contiguous() || each.is_conj() || each.is_neg()) return false;
      if (next && begin != next) return false;
      next = begin + each.nbytes();
    }
    return true;
  }

  template <class Copy>
  void exchange(const Copy& copy) const {
    int64_t begin = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      copy(copy_.narrow(0, begin, counts_[i]).view(tensors_[i].sizes()), tensors_[i]);
      begin += counts_[i];
    }
  }

  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> counts_;
  at::Tensor copy_;
};

}  // namespace tutti_torch
