#pragma once

// Elements of tensors that a sample makes or looks at by itself, on the host, wherever the tensors
// are.

#include <vector>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// Those of a contiguous tensor of this rank, of float32 or float64, once they are computed. Throws
/// InvalidArgument for other types.
std::vector<double> elementsOf(const DeviceMesh& mesh, const Tensor& x);
/// Gives it these, as many as it has, each rounded to its type. Throws as that does; in a dry run
/// nothing is written.
void setElements(const DeviceMesh& mesh, const Tensor& x, const std::vector<double>& elements);

}  // namespace tutti::parallel
