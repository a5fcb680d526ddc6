#pragma once

// Products of sharded tensors. What every rank gets by multiplying what it holds is right where, of
// every axis of the mesh, one of these holds (A[I,J] B[J,K] -> C[I,K], axis x):
//
//   no operand names x             C is replicated over x, each rank computes the same
//   x splits I, or K               so it does in C
//   x splits J, in both            C is partial over x: each rank has a summand
//   one operand is partial over x, and the other does not name it      C is partial too
//
// An index of all three (a batch) is split in both operands alike, and then in C. Otherwise
// operands are redistributed first, and C afterwards to lie as is wanted.

#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "parallel/sharding/notation.h"
#include "parallel/sharding/redistribution.h"

namespace tutti::parallel {

/// Why what the ranks hold cannot be multiplied.
struct Conflict {
  enum Kind : uint8_t {
    SplitsDifferentIndices,  ///< the axis splits one index of A and another one of B
    SplitsOneOperand,        ///< the axis splits an index that both have in one of them alone
    OtherOrder,              ///< the axis splits that index of both, but not in the same place
    BothPartial,             ///< a product of sums is not the sum of the products
    PartialAndSplit,         ///< one operand is partial over the axis, which splits the other
  };
  Kind kind = SplitsDifferentIndices;
  Axis axis = Axis::Data;
  char inA = 0, inB = 0;  ///< the index of A, and of B, that the axis splits; 0: none
  bool operator==(const Conflict&) const = default;
};

/// Why what ranks hold along `axis` cannot be multiplied, if it cannot.
std::optional<Conflict> conflictOver(Axis axis, const Term& a, const Term& b);

/// How the product lies, with these indices, when each rank multiplies what it holds; or the first
/// conflict.
std::variant<Layout, Conflict> multiply(const Term& a, const Term& b, const std::string& indices);

using Sizes = std::map<char, int64_t>;  ///< by index
/// Throws InvalidArgument naming an index without a size.
Shape globalShape(const Term& term, const Sizes& sizes);

/// One way to compute a product: operands are redistributed, multiplied where they are, and the
/// result redistributed.
struct Derivation {
  std::vector<RedistributionStep> stepsOfA, stepsOfB;
  Product multiplied;  ///< the operands and the result as they lie then
  std::vector<RedistributionStep> stepsOfC;
  int64_t sent = 0;  ///< elements, by the rank that sends most in each step
  double flops = 0;  ///< of the largest rank: a multiplication and an addition are two
};

/// The most axes that a product may name: what is tried grows fast with them.
inline constexpr int kMostProductAxes = 3;

/// The `most` best ways, one for each layout of the operands in which they can be multiplied: those
/// that send the fewest elements, of these those that compute least, of these the shortest. Throws
/// InvalidArgument when the product names more axes than kMostProductAxes, or wants a result that
/// is partial over an axis where nothing is a summand.
std::vector<Derivation> derive(const Product& product, const Sizes& sizes, const MeshShape& mesh,
                               size_t most);

}  // namespace tutti::parallel
