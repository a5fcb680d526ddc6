#pragma once

// Element arithmetic on the host: one pass that reads n sources and writes their reduction to m
// targets. This is the only place of the library that knows how elements are added on a CPU.
//
// What can be relied on, to the bit:
//   - an element's result depends on that element's source values, their order in `sources`, and
//     the request's fields; never on its position, alignment, `count`, the CPU's vector width, the
//     number of targets or `streaming`;
//   - every operation is commutative: swapping its two operands gives the same bits;
//   - every NaN that arithmetic stores is the type's one canonical quiet NaN (positive, top
//   mantissa
//     bit only; 0x7f for float8_e4m3). A plain copy keeps all bits.
//
// Semantics, by type:
//   integers        sum and product wrap; division truncates toward zero; a premultiplied element
//   is
//                   trunc(double(x) * scalar) clamped to the type's range, NaN giving 0 (64-bit
//                   elements beyond 2^53 lose their low bits in this multiplication).
//   float32, 64     plain IEEE, round to nearest even, no contraction. The scalar is rounded to the
//                   type first.
//   reduced types   (float16, bfloat16, float8) elements are widened to float32, exactly. Every
//                   premultiplied element is rounded to the type, in every order: what a rank adds
//                   of its own is what it sends to others. Listed: accumulated and divided in
//                   float32, rounded to the type once, at the end. ListedRounded, Canonical:
//                   rounded to the type after every addition, and after the division of the rounded
//                   sum; so folding in one step or in several gives the same bits. Overflow gives
//                   infinity; float8_e4m3 has none and gives NaN.
//   min, max        -0 is less than +0; NaN wins over everything.
//   bitwise, logical   integers only; a logical fold of two or more gives 0 or 1.
//
// Every division is one IEEE division by the exact divisor rounded to the accumulation type.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tutti/types.h>

namespace tutti::numbers {

enum class FoldOrder : uint8_t {
  Listed,         ///< ((s0 + s1) + s2) + ..., rounded once
  ListedRounded,  ///< the same, rounded after every addition
  Canonical,      ///< the aligned binary tree over the list, ((s0 + s1) + (s2 + s3)) + ..., rounded
                  ///< at every node; an odd tail joins at the level where it is alone: left part =
                  ///< largest power of two < n
};

struct FoldRequest {
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;  ///< Sum, Avg and PreMulSum all add
  FoldOrder order = FoldOrder::Listed;
  /// At least one, each of `count` elements, at any address.
  std::span<const void* const> sources;
  /// At least one, at any address. A target equals a source or is disjoint from all sources, and is
  /// disjoint from the other targets.
  std::span<void* const> targets;
  size_t count = 0;  ///< elements
  /// Empty, or one scalar per source, by which its elements are multiplied before they are folded;
  /// exactly 1.0 means "leave this source alone". Only with an op that adds.
  std::span<const double> premultiply = {};
  /// The folded value is divided once by it; 1 means no division. Only with an op that adds.
  int divideBy = 1;
  /// The targets are large and will not be read soon: store past the caches where that helps.
  bool streaming = false;
};

/// Evaluates the request. With one source and neither scalar nor division it copies the source to
/// every target. Everything stored is visible to a thread that acquires a later release of the
/// calling thread, also after streaming stores. Allocates nothing. Throws InvalidArgument.
void fold(const FoldRequest& request);

}  // namespace tutti::numbers
