// Where parameters and their shards lie, also of weights that tensor parallelism has cut before.

#include "parallel/store/cut.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

MeshShape shapeOf(const std::string& text) { return MeshShape::parse(text); }

TEST(Cut, RowsAreSharedOutAsEvenlyAsTheyGo) {
  onRanks(shapeOf("fsdp=3"), false, [](DeviceMesh& mesh) {
    Parameter weight{.name = "weight", .global = {7, 5}, .unit = 0};
    Parameter bias{.name = "bias", .global = {2}, .unit = 0};
    Parameter next{.name = "next", .global = {40}, .unit = 1};
    const Cut cut = cutParameters({&weight, &bias, &next}, mesh, ShardPolicy::fsdp());
    EXPECT_EQ(cut.shards, 3);
    EXPECT_EQ(cut.shard, mesh.rank());
    ASSERT_EQ(cut.units.size(), 2u);
    ASSERT_EQ(cut.pieces.size(), 3u);
    EXPECT_EQ(cut.pieces[0].rows, (std::vector<Range>{{0, 3}, {3, 5}, {5, 7}}));
    EXPECT_EQ(cut.pieces[1].rows, (std::vector<Range>{{0, 1}, {1, 2}, {2, 2}}));
    const Range mine = cut.pieces[0].rows[static_cast<size_t>(mesh.rank())];
    EXPECT_EQ(cut.pieces[0].box, (std::vector<Range>{mine, {0, 5}}));
    EXPECT_EQ(cut.pieces[0].shape(mine), (Shape{mine.count(), 5}));
    // 35 elements take 64 places, 15 in a block 32; the bias begins behind them.
    EXPECT_EQ(cut.pieces[1].full, 64);
    EXPECT_EQ(cut.pieces[1].block, 32);
    EXPECT_EQ(cut.units[0].full, 96);
    EXPECT_EQ(cut.units[0].block, 64);
    EXPECT_EQ(cut.units[1].full, 64);
    EXPECT_EQ(cut.units[1].block, 32);
    EXPECT_EQ(cut.units[1].begin, 2);
  });
}

/// Which rows of the parameter each element of a block is, -1 where none.
std::vector<int64_t> rowsInBlocks(const Cut& cut, const Piece& piece) {
  const int64_t block = cut.units[0].block;
  std::vector<double> whole(static_cast<size_t>(piece.local.count())),
      blocks(static_cast<size_t>(cut.shards * block), -1);
  std::iota(whole.begin(), whole.end(), 0.0);
  const Tensor full(whole.data(), DType::Float64, piece.local);
  const Tensor all(blocks.data(), DType::Float64, {cut.shards, block});
  HostKernels kernels;
  const auto parts = blockRows(piece, full, all.part(1, piece.block, block - piece.block));
  EXPECT_LE(parts.size(), 2u) << "however many ranks";
  for (const BlockRows& rows : parts) kernels.copy(rows.full, rows.blocks);
  return {blocks.begin(), blocks.end()};
}

// 1,030 rows are 9 or 8 of each of 128 ranks, and 100 are 1 or none.
TEST(Cut, RowsOfManyRanksAreCopiedTogether) {
  DeviceMesh mesh = DeviceMesh::dry(shapeOf("fsdp=128"), 0);
  Parameter weight{.name = "weight", .global = {1030, 3}, .unit = 0};
  Parameter bias{.name = "bias", .global = {100}, .unit = 0};
  const Cut cut = cutParameters({&weight, &bias}, mesh, ShardPolicy::fsdp());
  for (const Piece& piece : cut.pieces) {
    const std::vector<int64_t> found = rowsInBlocks(cut, piece);
    std::vector<int64_t> expected(found.size(), -1);
    for (size_t shard = 0; shard < piece.rows.size(); ++shard) {
      const Range rows = piece.rows[shard];
      for (int64_t i = 0; i < rows.count() * piece.rowElements; ++i)
        expected[shard * static_cast<size_t>(cut.units[0].block) +
                 static_cast<size_t>(piece.block + i)] = rows.begin * piece.rowElements + i;
    }
    EXPECT_EQ(found, expected) << piece.parameter->name;
  }
}

// Without sharding an axis of the policy cuts nothing.
TEST(Cut, ReplicatedPoliciesCutNothing) {
  onRanks(shapeOf("dp=2,fsdp=2"), false, [](DeviceMesh& mesh) {
    Parameter weight{.name = "weight", .global = {7, 5}, .unit = 0};
    const Cut cut = cutParameters({&weight}, mesh, ShardPolicy::ddp());
    EXPECT_EQ(cut.shards, 1);
    EXPECT_EQ(cut.pieces[0].box, (std::vector<Range>{{0, 7}, {0, 5}}));
  });
}

// FSDP over tensor parallelism on the same dimension: tensor cuts first. Every element is held by
// exactly one rank.
TEST(Cut, SharesOutWhatTensorParallelismLeaves) {
  std::mutex mutex;
  std::map<int64_t, int> held;
  onRanks(shapeOf("fsdp=2,tp=2"), false, [&](DeviceMesh& mesh) {
    Parameter weight{.name = "weight", .global = {7, 3}, .unit = 0};
    weight.layout.dims[0] = {Axis::Tensor};
    Parameter inner{.name = "inner", .global = {5, 6}, .unit = 0};
    inner.layout.dims[1] = {Axis::Tensor};
    const Cut cut = cutParameters({&weight, &inner}, mesh, ShardPolicy::fsdp());
    const bool first = mesh.index(Axis::Tensor) == 0;
    EXPECT_EQ(cut.pieces[0].local, (Shape{first ? 4 : 3, 3}));
    EXPECT_EQ(cut.pieces[0].rows,
              (first ? std::vector<Range>{{0, 2}, {2, 4}} : std::vector<Range>{{0, 2}, {2, 3}}));
    EXPECT_EQ(cut.pieces[1].local, (Shape{5, 3}));
    EXPECT_EQ(cut.pieces[1].rowElements, 3);
    const std::lock_guard lock(mutex);
    for (size_t p = 0; p < 2; ++p) {
      const auto& box = cut.pieces[p].box;
      for (int64_t r = box[0].begin; r < box[0].end; ++r)
        for (int64_t c = box[1].begin; c < box[1].end; ++c)
          ++held[static_cast<int64_t>(p) * 1000 + r * 10 + c];
    }
  });
  EXPECT_EQ(held.size(), 7u * 3 + 5 * 6);
  for (const auto& [element, times] : held) EXPECT_EQ(times, 1) << element;
}

TEST(Cut, RefusesLayoutsThatThePolicyUses) {
  DeviceMesh mesh;
  Parameter weight{.name = "weight", .global = {4}, .unit = 0};
  weight.layout.dims[0] = {Axis::Fsdp};
  EXPECT_THROW(cutParameters({&weight}, mesh, ShardPolicy::ddp()), Error);
  weight.layout = {};
  weight.layout.partial = {Axis::Tensor};
  EXPECT_THROW(cutParameters({&weight}, mesh, ShardPolicy::ddp()), Error);
  weight.layout = {};
  weight.gradientPartial.axes = {Axis::Data};  // the policy's own
  EXPECT_THROW(cutParameters({&weight}, mesh, ShardPolicy::ddp()), Error);
  weight.gradientPartial.axes = {Axis::Tensor, Axis::Rep};
  EXPECT_NO_THROW(cutParameters({&weight}, mesh, ShardPolicy::ddp()));
  weight.layout.dims[0] = {Axis::Rep};  // each rank has rows of its own
  EXPECT_THROW(cutParameters({&weight}, mesh, ShardPolicy::ddp()), Error);
  Parameter scalar{.name = "scalar", .global = {}, .unit = 0};
  EXPECT_THROW(cutParameters({&scalar}, mesh, ShardPolicy::ddp()), Error);
}

}  // namespace
}  // namespace tutti::parallel
