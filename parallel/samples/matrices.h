#pragma once

// Matrices of which every rank has a part, for the sample that multiplies them: their elements, the
// product of what a rank holds, and how far a result is from another one.

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

/// The largest difference between `part` and what of `whole` it is, in units of the largest element
/// of the whole; NaN where there is one.
double worstDifference(const Tensor& part, const Box& box, const Tensor& whole);

}  // namespace tutti::parallel
