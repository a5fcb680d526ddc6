#include "parallel/samples/sharded_matmul/matrices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "parallel/engine/describe.h"
#include "parallel/samples/elements.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

constexpr uint64_t kSeed = 1;

/// Calls `visit` with each element's number in the part and in the whole.
template <class Visit>
void forElements(const Box& box, const Shape& whole, const Visit& visit) {
  size_t at = 0;
  for (int64_t i = box[0].begin; i < box[0].end; ++i)
    for (int64_t j = box[1].begin; j < box[1].end; ++j)
      visit(at++, static_cast<size_t>(i * whole[1] + j));
}

/// Of what each rank has one.
double largestOf(DeviceMesh& mesh, double own, Arena& memory) {
  Tensor mine = memory.allocate(DType::Float64, {1});
  setElements(mesh, mine, {own});
  for (int i = 0; i < kAxisCount; ++i)
    if (const auto axis = static_cast<Axis>(i); mesh.extent(axis) > 1)
      mine.layout.dims[0].append(axis);
  return std::ranges::max(elementsOf(mesh, rearranged(mesh, mine, {mesh.ranks()}, {}, memory)));
}

}  // namespace

void requireMatrices(const Product& p) {
  const auto shared = [](const Term& one, const Term& other) {
    return std::ranges::count_if(one.indices, [&](char i) { return other.dimensionOf(i) >= 0; });
  };
  for (const Term* term : {&p.a, &p.b, &p.c})
    require(term->indices.size() == 2, term->name, " is no matrix: this multiplies two of them");
  require(shared(p.a, p.b) == 1 && shared(p.a, p.c) == 1 && shared(p.b, p.c) == 1,
          "this is no product of matrices: one index is summed over, and one of each is kept");
}

Tensor exampleMatrix(const DeviceMesh& mesh, const Term& term, const Shape& global, DType type,
                     Arena& memory) {
  const Box box = boxOf(global, term.layout, mesh.shape(), mesh.place());
  Tensor x = memory.allocate(type, extentsOf(box));
  x.layout = term.layout;
  if (mesh.dry()) return x;
  const Random random(kSeed, term.name);
  const double ranks = mesh.extent(x.layout.partial), index = mesh.index(x.layout.partial);
  const double share = (index + 1) / (ranks * (ranks + 1) / 2);
  std::vector<double> elements(static_cast<size_t>(x.count()));
  forElements(box, global, [&](size_t at, size_t place) {
    elements[at] = share * (2 * random.uniform(place) - 1);
  });
  setElements(mesh, x, elements);
  return x;
}

Tensor multiplyParts(const Product& product, const Tensor& a, const Tensor& b, Kernels& kernels,
                     Arena& memory) {
  const char row = product.c.indices[0], column = product.c.indices[1];
  const bool swapped = product.a.dimensionOf(row) < 0;  // the rows of C are B's
  const Term& left = swapped ? product.b : product.a;
  const Term& right = swapped ? product.a : product.b;
  GemmArgs gemm{.a = swapped ? b : a, .b = swapped ? a : b, .c = {}};
  gemm.transposeA = left.dimensionOf(row) == 1;
  gemm.transposeB = right.dimensionOf(column) == 0;
  gemm.c = memory.allocate(
      a.type, {gemm.a.shape[gemm.transposeA ? 1 : 0], gemm.b.shape[gemm.transposeB ? 0 : 1]});
  kernels.gemm(gemm);
  gemm.c.layout = product.c.layout;
  return gemm.c;
}

Collectives predictedCollectives(const DeviceMesh& mesh, const RedistributionStep& step,
                                 const Tensor& from, const Tensor& to) {
  if (mesh.extent(step.axis) == 1 || step.move == Move::Slice) return {};
  CollectiveCounters count;
  switch (step.move) {
    case Move::AllReduce: count.allReduce.add(from.bytes()); break;
    case Move::ReduceScatter: count.reduceScatter.add(from.bytes()); break;
    case Move::AllGather: count.allGather.add(to.bytes()); break;
    case Move::AllToAll: count.allToAll.add(std::max(from.bytes(), to.bytes())); break;
    case Move::Slice: break;
  }
  return {{AxisSet{step.axis}, count}};
}

void requirePredicted(const RedistributionStep& step, const Collectives& counted,
                      const Collectives& predicted) {
  ensure(counted == predicted, "a step (", toString(step.move), ") ", describe(counted),
         "and the algebra predicts that it ", describe(predicted));
}

double worstDifference(const DeviceMesh& mesh, const Tensor& part, const Box& box,
                       const Tensor& whole) {
  const std::vector<double> own = elementsOf(mesh, part), all = elementsOf(mesh, whole);
  double largest = std::numeric_limits<double>::min(), worst = 0;
  for (const double element : all) largest = std::max(largest, std::fabs(element));
  forElements(box, whole.shape, [&](size_t at, size_t place) {
    const double difference = std::fabs(own[at] - all[place]);
    if (std::isnan(worst) || difference <= worst) return;  // a NaN stays
    worst = difference;
  });
  return worst / largest;
}

double checkedDifference(DeviceMesh& mesh, Kernels& kernels, const Product& product,
                         const Sizes& sizes, const Tensor& part, Arena& memory) {
  const Shape global = globalShape(product.c, sizes);
  const Tensor c = rearranged(mesh, part, global, gradientLayout(part.layout), memory);
  Product whole = product;
  for (Term* term : {&whole.a, &whole.b, &whole.c}) term->layout = {};
  const auto example = [&](const Term& term) {
    return exampleMatrix(mesh, term, globalShape(term, sizes), part.type, memory);
  };
  const double worst =
      worstDifference(mesh, c, boxOf(global, c.layout, mesh.shape(), mesh.place()),
                      multiplyParts(whole, example(whole.a), example(whole.b), kernels, memory));
  const double bound = part.type == DType::Float64 ? 1e-12 : 1e-12 * 0x1p29;
  ensure(worst <= bound, "rank ", mesh.rank(), "'s part of the product is ", worst,
         " from the whole one, in units of its largest element: more than ", bound);
  return largestOf(mesh, worst, memory);
}

}  // namespace tutti::parallel
