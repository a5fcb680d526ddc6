// Which block has which tile of which head (tiles_device.cuh): each is there once, and blocks that
// run at the same time meet rows of few heads.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "parallel/kernels/cuda/attention/tiles_device.cuh"

namespace tutti::parallel::cuda {
namespace {

struct Case {
  int32_t batch, heads, rows, width;
  int64_t others;
};

TEST(AttentionTasks, AreAllThereOnceInGroupsOfHeads) {
  constexpr int32_t kTile = 128;
  constexpr Case kCases[] = {{1, 1, 1, 64, 1},         {2, 3, 300, 64, 300},
                             {3, 7, 1000, 128, 8192},  {1, 5, 513, 128, int64_t{1} << 20},
                             {16, 32, 1024, 64, 1024}, {2, 4, 200, 80, 0}};
  for (const Case& c : kCases)
    for (const bool lastFirst : {false, true}) {
      AttentionSizes sizes{};
      sizes.batch = c.batch;
      sizes.headWidth = c.width;
      const int32_t tiles = (c.rows + kTile - 1) / kTile, all = c.batch * c.heads;
      const int64_t bytes = 4 * c.others * c.width;
      const auto ofGroup = static_cast<int32_t>(
          std::clamp<int64_t>(bytes == 0 ? all : kCachedBytes / bytes, 1, all));
      std::set<std::tuple<int32_t, int32_t, int32_t>> seen;
      int32_t tileBefore = 0;
      for (int32_t block = 0; block < all * tiles; ++block) {
        const HeadTask task = headTaskOf(block, sizes, c.heads, c.rows, kTile, lastFirst, c.others);
        ASSERT_TRUE(task.batch >= 0 && task.batch < c.batch && task.head >= 0 &&
                    task.head < c.heads && task.first >= 0 && task.first < c.rows &&
                    task.first % kTile == 0)
            << block;
        EXPECT_TRUE(seen.insert({task.batch, task.head, task.first}).second) << block;
        const int32_t head = task.batch * c.heads + task.head, tile = task.first / kTile;
        EXPECT_EQ(head / ofGroup, block / (ofGroup * tiles)) << block;
        if (block % (ofGroup * tiles) == 0)
          EXPECT_EQ(tile, lastFirst ? tiles - 1 : 0);
        else
          EXPECT_TRUE(lastFirst ? tile <= tileBefore : tile >= tileBefore) << block;
        tileBefore = tile;
      }
    }
}

}  // namespace
}  // namespace tutti::parallel::cuda
