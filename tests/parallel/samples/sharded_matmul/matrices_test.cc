// The matrices of the sample that multiplies them: that their parts are those of one matrix, their
// summands add up to it, all transpositions are multiplied rightly, an error is seen, and so is an
// exchange that the algebra does not predict.

#include "parallel/samples/sharded_matmul/matrices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"

namespace tutti::parallel {
namespace {

constexpr Axis x = Axis::Pipeline;
const Shape kShape{5, 7};
const MeshShape kMesh = MeshShape::along(x, 3);

Product productOf(const std::string& text) { return parseProduct(text, AxisLetters("x")); }

/// What rank `rank` has; there is no other one, and the matrix has elements.
Tensor partOn(int rank, const Term& term, Arena& memory) {
  auto ranks = Communicator::createLocal(3);
  const DeviceMesh mesh(std::move(ranks[static_cast<size_t>(rank)]), kMesh);
  return exampleMatrix(mesh, term, kShape, DType::Float64, memory);
}

TEST(Matrices, HavePartsOfTheWhole) {
  Arena memory("test");
  const Term whole = productOf("A[I,J] B[J,K] -> C[I,K]").a;
  const Tensor all = exampleMatrix(DeviceMesh(), whole, kShape, DType::Float64, memory);
  double least = 1, most = -1, sum = 0;
  for (int64_t i = 0; i < all.count(); ++i) {
    least = std::min(least, all.as<double>()[i]);
    most = std::max(most, all.as<double>()[i]);
  }
  EXPECT_GE(least, -1);
  EXPECT_LT(least, -0.5);
  EXPECT_GT(most, 0.5);
  EXPECT_LT(most, 1);
  for (const std::string text : {"A[Ix,J] B[J,K] -> C[I,K]", "A[I,Jx] B[J,K] -> C[I,K]"})
    for (int rank = 0; rank < 3; ++rank) {
      const Term term = productOf(text).a;
      const Tensor part = partOn(rank, term, memory);
      const Box box = boxOf(kShape, term.layout, kMesh, placeOf(kMesh, rank));
      EXPECT_EQ(part.shape, extentsOf(box));
      EXPECT_EQ(part.layout, term.layout);
      EXPECT_EQ(worstDifference(DeviceMesh(), part, box, all), 0) << text << ", rank " << rank;
    }
  const Term partial = productOf("A[I,J]{Ux} B[J,K] -> C[I,K]").a;
  for (int rank = 0; rank < 3; ++rank) sum += partOn(rank, partial, memory).as<double>()[9];
  EXPECT_NEAR(sum, all.as<double>()[9], 1e-15);
  Term other = whole;
  other.name = "B";
  const Tensor another = exampleMatrix(DeviceMesh(), other, kShape, DType::Float64, memory);
  EXPECT_GT(worstDifference(DeviceMesh(), another, wholeOf(kShape), all), 0.5);
}

TEST(Matrices, AreMultipliedHoweverTheyLie) {
  host::setBlasThreads(1);
  Arena memory("test");
  HostKernels kernels;
  const Sizes sizes{{'I', 4}, {'J', 3}, {'K', 2}};
  const auto at = [](const Term& term, const Tensor& t, char row, int64_t i, int64_t j) {
    return term.indices[0] == row ? t.as<double>()[i * t.shape[1] + j]
                                  : t.as<double>()[j * t.shape[1] + i];
  };
  for (const std::string a : {"A[I,J]", "A[J,I]"})
    for (const std::string b : {"B[J,K]", "B[K,J]"})
      for (const std::string c : {"C[I,K]", "C[K,I]"}) {
        const Product product = productOf(a + " " + b + " -> " + c);
        const auto example = [&](const Term& term) {
          return exampleMatrix(DeviceMesh(), term, globalShape(term, sizes), DType::Float64,
                               memory);
        };
        const Tensor ta = example(product.a), tb = example(product.b);
        const Tensor tc = multiplyParts(product, ta, tb, kernels, memory);
        ASSERT_EQ(tc.shape, globalShape(product.c, sizes));
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t k = 0; k < 2; ++k) {
            double sum = 0;
            for (int64_t j = 0; j < 3; ++j)
              sum += at(product.a, ta, 'I', i, j) * at(product.b, tb, 'J', j, k);
            EXPECT_NEAR(at(product.c, tc, 'I', i, k), sum, 1e-15) << a << b << c;
          }
      }
}

TEST(Matrices, DifferWhereOneElementDoes) {
  double whole[] = {1, -4, 2, 3, 0, 1}, part[] = {2, 3, 0, 1};
  const Tensor all(whole, DType::Float64, {3, 2}), rows(part, DType::Float64, {2, 2});
  const Box box{{1, 3}, {0, 2}};
  EXPECT_EQ(worstDifference(DeviceMesh(), rows, box, all), 0);
  for (double& element : part) {
    const double before = element;
    element += 1;
    EXPECT_EQ(worstDifference(DeviceMesh(), rows, box, all), 0.25);
    element = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(std::isnan(worstDifference(DeviceMesh(), rows, box, all)));
    element = before;
  }
  const Tensor none(part, DType::Float64, {0, 2});
  EXPECT_EQ(worstDifference(DeviceMesh(), none, {{3, 3}, {0, 2}}, all), 0);
}

TEST(Matrices, HaveTwoDimensions) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      requireMatrices(productOf(text));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal("A[J,I] B[K,J] -> C[K,I]"), "taken");
  EXPECT_EQ(refusal("A[I] B[I,K] -> C[I,K]"), "A is no matrix: this multiplies two of them");
  EXPECT_EQ(refusal("A[I,J] B[J] -> C[I]"), "B is no matrix: this multiplies two of them");
  for (const std::string other : {"A[I,J] B[I,J] -> C[I,J]", "A[I,J] B[J,I] -> C[I,J]"})
    EXPECT_NE(refusal(other).find("no product of matrices"), std::string::npos) << other;
}

/// An AllGather along an axis of 2, 3 or 1 ranks, without data, and what it is from and to.
struct Moved {
  DeviceMesh mesh;
  RedistributionStep step;
  Tensor from, to;
};
Moved gatherOver(Axis axis) {
  MeshShape shape = MeshShape::along(Axis::Pipeline, 2);
  shape[Axis::Data] = 3;
  Moved moved{DeviceMesh::dry(shape, 0), {.move = Move::AllGather, .axis = axis}, {}, {}};
  moved.from = Tensor(nullptr, DType::Float64, {2, 7});
  moved.to = Tensor(nullptr, DType::Float64, {2 * shape[axis], 7});
  return moved;
}
void expectRefused(const RedistributionStep& step, const Collectives& counted,
                   const Collectives& predicted) {
  EXPECT_THROW(requirePredicted(step, counted, predicted), Error);
}

// By every axis: what was sent along another one is not what the algebra says either.
TEST(Matrices, ExchangesAreComparedAlongEveryAxis) {
  for (const Axis axis : {Axis::Pipeline, Axis::Data}) {
    const Moved m = gatherOver(axis);
    const Collectives predicted = predictedCollectives(m.mesh, m.step, m.from, m.to);
    ASSERT_EQ(predicted.size(), 1u);
    EXPECT_EQ(predicted.at({axis}), (CollectiveCounters{.allGather = {1, m.to.bytes()}}));
    EXPECT_NO_THROW(requirePredicted(m.step, predicted, predicted));
    expectRefused(m.step, {}, predicted);
    Collectives other = predicted;
    other[{axis}].allGather.bytes += 8;
    expectRefused(m.step, other, predicted);
    for (const AxisSet& along : {AxisSet{Axis::Pipeline}, AxisSet{Axis::Data},
                                 AxisSet{Axis::Pipeline, Axis::Data}, AxisSet{Axis::Tensor}}) {
      other = predicted;
      other[along].allReduce.add(8);
      expectRefused(m.step, other, predicted);
    }
  }
  Moved none = gatherOver(Axis::Tensor);  // one rank
  EXPECT_TRUE(predictedCollectives(none.mesh, none.step, none.from, none.to).empty());
  none = gatherOver(Axis::Data);
  none.step.move = Move::Slice;
  EXPECT_TRUE(predictedCollectives(none.mesh, none.step, none.from, none.to).empty());
}

// By its larger side.
TEST(Matrices, ExchangesArePredictedByTheirMove) {
  Moved m = gatherOver(Axis::Data);
  const auto of = [&](Move move, const Tensor& from, const Tensor& to) {
    m.step.move = move;
    return predictedCollectives(m.mesh, m.step, from, to).at({Axis::Data});
  };
  const Tensor &part = m.from, &whole = m.to;
  const size_t all = whole.bytes();
  EXPECT_EQ(of(Move::AllReduce, whole, whole), (CollectiveCounters{.allReduce = {1, all}}));
  EXPECT_EQ(of(Move::ReduceScatter, whole, part), (CollectiveCounters{.reduceScatter = {1, all}}));
  EXPECT_EQ(of(Move::AllToAll, part, whole), (CollectiveCounters{.allToAll = {1, all}}));
  EXPECT_EQ(of(Move::AllToAll, whole, part), (CollectiveCounters{.allToAll = {1, all}}));
}

}  // namespace
}  // namespace tutti::parallel
