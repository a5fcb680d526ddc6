#pragma once

// Matrices of which every rank has a part, for the sample that multiplies them: their elements, the
// product of what a rank holds, what a step of a redistribution has to send, and how far a result
// is from another one.

#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/sharding/contraction.h"

namespace tutti::parallel {

/// Throws InvalidArgument unless A, B and C are matrices of which each has one index in common with
/// each other.
void requireMatrices(const Product& product);

/// This rank's part of the matrix `term` of shape `global`, in `memory`. Each element is a function
/// of the name and its place, uniform in [-1, 1); where the matrix is a sum over p ranks, the k-th
/// has k of its 1 + 2 + ... + p shares. In a dry run it has no elements.
Tensor exampleMatrix(const DeviceMesh& mesh, const Term& term, const Shape& global, DType type,
                     Arena& memory);

/// What a rank gets by multiplying its parts of the operands, in `memory`, as product.c lies.
Tensor multiplyParts(const Product& product, const Tensor& a, const Tensor& b, Kernels& kernels,
                     Arena& memory);

/// What a step from one of these to the other sends, as communicators count it: by its larger side,
/// what is cut up or what is put together. Nothing where the step's axis has one rank.
Collectives predictedCollectives(const DeviceMesh& mesh, const RedistributionStep& step,
                                 const Tensor& from, const Tensor& to);
/// Throws Internal, naming the step's move, unless the ranks along every set of axes have `counted`
/// what was `predicted`.
void requirePredicted(const RedistributionStep& step, const Collectives& counted,
                      const Collectives& predicted);

/// The largest difference between `part` and what of `whole` it is, in units of the largest element
/// of the whole; NaN where there is one.
double worstDifference(const DeviceMesh& mesh, const Tensor& part, const Box& box,
                       const Tensor& whole);

/// That of the parts of all ranks, of which `part` is this one's, from the product of two example
/// matrices, which this rank computes by itself. Collective. Throws Internal where this rank's is
/// more than rounding: of a sum of n products that is n 2^-53 of their sizes at most (2^-24 in
/// float32), and about the root of n of them as a rule.
double checkedDifference(DeviceMesh& mesh, Kernels& kernels, const Product& product,
                         const Sizes& sizes, const Tensor& part, Arena& memory);

}  // namespace tutti::parallel
