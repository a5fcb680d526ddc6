#pragma once

// The command line of sharded_matmul.

#include <string>

#include "parallel/sharding/product_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tutti::parallel {

struct MatmulOptions {
  std::string product;  ///< empty: those that the sample has
  std::string mesh;     ///< empty: all ranks along x
  std::string sizes = "I=512,J=512,K=512", type = "float64";
  size_t ways = 1;
  std::string svg;  ///< a file; empty: none
};

void addFlags(CLI::App& app, MatmulOptions& options);
/// Throws InvalidArgument when --mesh has another number of ranks, or more axes than a product may
/// name, and as parseMesh().
LetteredMesh meshOf(const MatmulOptions& options, int ranks);

}  // namespace tutti::parallel
