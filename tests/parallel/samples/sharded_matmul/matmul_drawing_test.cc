// The picture of sharded products: a rectangle for each block and summand of each matrix, and an
// arrow for each step, which says what is sent.

#include "parallel/samples/sharded_matmul/matmul_drawing.h"

#include <gtest/gtest.h>

#include "parallel/tensor/check.h"
#include "tests/parallel/samples/svg_parts.h"

namespace tutti::parallel {
namespace {

SvgParts drawn(const std::string& product, const std::string& mesh = "x=4") {
  const LetteredMesh lettered = parseMesh("--mesh", mesh, 64);
  const Product parsed = parseProduct(product, lettered.letters);
  const Sizes sizes{{'I', 64}, {'J', 64}, {'K', 64}};
  const Derivation way = derive(parsed, sizes, lettered.shape, 1).front();
  return SvgParts(matmulSvg({{parsed, sizes, way}}, lettered, sizeof(double)));
}

// The background is a rectangle too.
TEST(MatmulDrawing, HasARectangleForEachBlock) {
  // A in 4 parts, B on all ranks, C in 4 parts.
  const SvgParts first = drawn("A[Ix,J] B[J,K] -> C[Ix,K]");
  EXPECT_EQ(first.rectangles(), 1 + 4 + 1 + 4);
  EXPECT_EQ(first.texts("all ranks"), 1);
  EXPECT_EQ(first.lines(), 0);
  for (const std::string rank : {"0", "1", "2", "3"}) EXPECT_EQ(first.texts(rank), 2) << rank;
  // A in 4 parts and then on all, B, C on all.
  const SvgParts second = drawn("A[I,Jx] B[J,K] -> C[I,K]");
  EXPECT_EQ(second.rectangles(), 1 + 4 + 1 + 1 + 1);
  EXPECT_EQ(second.texts("AllGather x"), 1);
  EXPECT_EQ(second.texts("sends 24.6 kB"), 1);  // 3/4 of 64 x 64 x 8
  // A, B in 4 parts, C as 4 summands and then on all.
  const SvgParts third = drawn("A[I,Jx] B[Jx,K] -> C[I,K]");
  EXPECT_EQ(third.rectangles(), 1 + 4 + 4 + 4 + 1);
  EXPECT_EQ(third.texts("AllReduce x"), 1);
  EXPECT_EQ(third.texts("C[I,K]{Ux}"), 1);
  EXPECT_EQ(third.texts("4 summands"), 1);
  EXPECT_EQ(third.lines(), 1);
}

TEST(MatmulDrawing, NamesTheRanksOfABlock) {
  const SvgParts svg = drawn("A[Ix,J] B[J,Ky] -> C[Ix,Ky]", "x=2,y=2");
  EXPECT_EQ(svg.rectangles(), 1 + 2 + 2 + 4);
  for (const std::string ranks : {"0,1", "2,3", "0,2", "1,3", "0", "1", "2", "3"})
    EXPECT_EQ(svg.texts(ranks), 1) << ranks;
}

TEST(MatmulDrawing, RefusesMoreThanThereIsRoomFor) {
  EXPECT_THROW(drawn("A[Ix,J] B[J,K] -> C[Ix,K]", "x=17"), Error);
}

}  // namespace
}  // namespace tutti::parallel
