// The queue of the walks: whatever is pushed comes out as from a heap, whatever runs it is said to
// belong to.

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>

#include "collectives/run_queue.h"

namespace tutti::collectives {
namespace {

using Reference = std::priority_queue<int, std::vector<int>, std::greater<>>;

/// Pushes and pops at random; `next` says what a run's next element is, after its last one.
void compare(uint32_t runs, unsigned seed, const std::function<int(int, std::mt19937&)>& next) {
  std::mt19937 random(seed);
  RunQueue<int> queue(runs);
  Reference reference;
  std::vector<int> last(runs, 0);
  for (int step = 0; step < 20000; ++step) {
    const bool grows = step / 1000 % 2 == 0;  // long queues and empty ones
    ASSERT_EQ(queue.empty(), reference.empty());
    if (random() % 5 < (grows ? 3U : 2U)) {
      const uint32_t run = random() % runs;
      last[run] = next(last[run], random);
      queue.push(run, last[run]);
      reference.push(last[run]);
    } else if (!queue.empty()) {
      ASSERT_EQ(queue.top(), reference.top());
      ASSERT_EQ(queue.pop(), reference.top());
      reference.pop();
    }
  }
  for (; !queue.empty(); reference.pop()) {
    ASSERT_FALSE(reference.empty());
    ASSERT_EQ(queue.pop(), reference.top());
  }
  EXPECT_TRUE(reference.empty());
}

TEST(RunQueue, GivesTheLeastOfOrderedRuns) {
  for (const uint32_t runs : {1, 2, 7, 300})
    compare(runs, runs,
            [](int last, std::mt19937& random) { return last + static_cast<int>(random() % 9); });
}

TEST(RunQueue, GivesTheLeastWhereRunsAreNotOrdered) {
  for (const uint32_t runs : {1, 2, 7, 300}) {
    compare(runs, runs, [](int, std::mt19937& random) { return static_cast<int>(random() % 99); });
    compare(runs, runs, [](int last, std::mt19937& random) {
      return last + static_cast<int>(random() % 9) - 2;
    });
  }
}

TEST(ListPools, KeepListsApartAndUseRoomAgain) {
  ListPool<int> pool;
  std::vector<ListPool<int>::List> lists(3);
  std::vector<std::queue<int>> reference(3);
  std::mt19937 random(1);
  for (int step = 0; step < 3000; ++step) {
    const size_t list = random() % lists.size();
    ASSERT_EQ(lists[list].empty(), reference[list].empty());
    if (random() % 2 == 0) {
      pool.push(lists[list], step);
      reference[list].push(step);
    } else if (!lists[list].empty()) {
      ASSERT_EQ(pool.front(lists[list]), reference[list].front());
      pool.pop(lists[list]);
      reference[list].pop();
    }
  }
}

}  // namespace
}  // namespace tutti::collectives
