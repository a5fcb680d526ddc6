#include "parallel/samples/sharded_matmul/matmul_options.h"

#include <CLI/CLI.hpp>

#include "src/base/one_of.h"

namespace tutti::parallel {

void addFlags(CLI::App& app, MatmulOptions& o) {
  app.add_option("product", o.product,
                 "as `tutti shard` takes it, of matrices: \"A[I,Jx] B[Jx,K] -> C[I,K]\"");
  app.add_option("--mesh", o.mesh, "axes and the ranks along each, outermost first; default: x");
  app.add_option("--sizes", o.sizes, "of all indices")->capture_default_str();
  app.add_option("--type", o.type, "float64 or float32")
      ->check(base::oneOf({"float64", "float32"}))
      ->capture_default_str();
  app.add_option("--ways", o.ways, "so many ways to compute it, those that send least first")
      ->check(CLI::Range(1, 1000, "POSITIVE"))
      ->capture_default_str();
  app.add_option("--svg", o.svg,
                 "write which rank has what, and what is sent, to this file as a picture");
}

LetteredMesh meshOf(const MatmulOptions& o, int ranks) {
  const LetteredMesh mesh =
      parseMesh("--mesh", o.mesh.empty() ? message("x=", ranks) : o.mesh, 1024);
  require(mesh.shape.ranks() == ranks, "--mesh ", o.mesh, " has ", mesh.shape.ranks(),
          mesh.shape.ranks() == 1 ? " rank" : " ranks", ", not ", ranks);
  require(mesh.letters.all().size() <= kMostProductAxes, "--mesh ", o.mesh,
          ": a product names at most ", kMostProductAxes, " axes");
  return mesh;
}

}  // namespace tutti::parallel
