#pragma once

// Command lines about products of sharded tensors: meshes whose axes are letters, and how large
// indices are.

#include <string>

#include "parallel/sharding/contraction.h"
#include "parallel/sharding/mesh_shape.h"
#include "parallel/sharding/notation.h"

namespace tutti::parallel {

/// The n-th letter's extent is that of the n-th Axis.
struct LetteredMesh {
  AxisLetters letters{""};
  MeshShape shape;
};

/// "x=4,y=2": axes and how many ranks are along each, outermost first. Throws InvalidArgument,
/// calling it `what`, as parseNamedNumbers() and AxisLetters do, for a name that is no letter, and
/// for more than `mostRanks`.
LetteredMesh parseMesh(const std::string& what, const std::string& text, int mostRanks);
/// The way back.
std::string describe(const LetteredMesh& mesh);

/// "I=4096,J=4096,K=4096": the sizes of the product's indices. Throws InvalidArgument, calling it
/// `what`, as parseNamedNumbers() does, for a name that is no index of the product, and for an
/// index that is missing.
Sizes parseSizes(const std::string& what, const std::string& text, const Product& product);

}  // namespace tutti::parallel
