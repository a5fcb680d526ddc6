#include "parallel/nn/module.h"

#include "parallel/mesh/redistribute.h"

namespace tutti::parallel {

Tensor ParallelContext::redistribute(const Tensor& x, const Layout& to) {
  const Shape global = evenGlobalShape(x.shape, x.layout, mesh.shape());
  return parallel::redistribute(mesh, x, global, to, scratch);
}

}  // namespace tutti::parallel
