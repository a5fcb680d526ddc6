// What ncclMemAlloc() gives out, here of the host: the test is run where no GPU is seen.

#include "src/nccl/memory_blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/nccl/refusal.h"
#include "tests/support/text.h"

namespace tutti::nccl {
namespace {

using tests::contains;

class Blocks : public testing::Test {
 protected:
  MemoryBlocks& blocks_ = MemoryBlocks::ofProcess();
};

TEST_F(Blocks, AreFreedOnce) {
  void* const block = blocks_.allocate(1000);
  ASSERT_NE(block, nullptr);
  std::memset(block, 7, 1000);
  auto* const inside = static_cast<std::byte*>(block) + 8;
  EXPECT_TRUE(
      contains(refusal([&] { blocks_.free(inside); }), "was not allocated by ncclMemAlloc"));
  blocks_.free(block);
  EXPECT_TRUE(contains(refusal([&] { blocks_.free(block); }), "or freed before"));
}

TEST_F(Blocks, OfNoBytesAreNull) { EXPECT_EQ(blocks_.allocate(0), nullptr); }

TEST_F(Blocks, AreSharedWithTheRanksWhereABufferLiesInThem) {
  auto ranks = Communicator::createLocal(1);
  auto* const block = static_cast<std::byte*>(blocks_.allocate(4096));
  for (const auto& [offset, bytes] :
       {std::pair<size_t, size_t>{0, 4096}, {0, 1}, {4095, 1}, {1000, 3096}, {4096, 0}})
    EXPECT_TRUE(blocks_.share(ranks[0], block + offset, bytes)) << offset << " " << bytes;
  for (const auto& [offset, bytes] :
       {std::pair<size_t, size_t>{0, 4097}, {4095, 2}, {1, ~size_t{0}}})
    EXPECT_FALSE(blocks_.share(ranks[0], block + offset, bytes)) << offset << " " << bytes;
  std::byte elsewhere{};
  EXPECT_FALSE(blocks_.share(ranks[0], &elsewhere, 1));
  EXPECT_FALSE(blocks_.share(ranks[0], nullptr, 1));
  blocks_.free(block);
}

TEST_F(Blocks, StayWhileTheyAreShared) {
  auto ranks = Communicator::createLocal(1);
  auto* const block = static_cast<std::byte*>(blocks_.allocate(64));
  const auto shared = blocks_.share(ranks[0], block, 64);
  ASSERT_TRUE(shared);
  blocks_.free(block);
  block[63] = std::byte{9};
  EXPECT_EQ(shared->as<std::byte>()[63], std::byte{9});
}

}  // namespace
}  // namespace tutti::nccl
