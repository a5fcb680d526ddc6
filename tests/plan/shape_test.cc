// A shape cuts every block into rounds and chunks that cover it once, in order, aligned.

#include <gtest/gtest.h>

#include <tutti/error.h>
#include "src/plan/plan.h"

namespace tutti::plan {
namespace {

struct Case {
  uint32_t divisions, messageChunks;
  uint64_t count;
  size_t elementBytes, slotBytes;
};

PlanSpec specOf(const Case& c, Collective collective = Collective::AllReduce) {
  PlanSpec spec;
  spec.collective = collective;
  spec.ranks = 4;
  spec.divisions = c.divisions;
  spec.messageChunks = c.messageChunks;
  spec.scratchBlocks = 3;
  return spec;
}

std::string describe(const Case& c) {
  return std::to_string(c.count) + " elements of " + std::to_string(c.elementBytes) + " in " +
         std::to_string(c.divisions) + " divisions, slots of " + std::to_string(c.slotBytes);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (uint32_t divisions : {1U, 2U, 3U, 8U, 127U})
    for (uint32_t messageChunks : {0U, 1U, 4U})
      for (uint64_t count : {0ULL, 1ULL, 63ULL, 64ULL, 65ULL, 1000ULL, 4096ULL, 1048573ULL})
        for (size_t elementBytes : {1UL, 2UL, 8UL})
          for (size_t slotBytes : {256UL, 4096UL, 65536UL})
            all.push_back({divisions, messageChunks, count, elementBytes, slotBytes});
  // Beyond 2^32 elements, and beyond 2^32 bytes in one chunk.
  all.push_back({7, 1, (1ULL << 32) + 5, 2, 1 << 26});
  all.push_back({3, 0, (1ULL << 34) + 1, 8, 65536});
  return all;
}

TEST(PlanShape, ChunksTileEachBlockInOrder) {
  for (const Case& c : cases()) {
    const PlanSpec spec = specOf(c);
    const PlanShape shape(spec, c.count, c.elementBytes, c.slotBytes);
    uint64_t position = 0;
    ASSERT_GE(shape.rounds(), 1);
    for (int64_t round = 0; round < shape.rounds(); ++round)
      for (uint32_t division = 0; division < c.divisions; ++division) {
        const Extent e = shape.extent(Buffer::In, division, round);
        ASSERT_EQ(e.offset, position) << describe(c);
        ASSERT_TRUE(e.bytes == 0 || e.offset % kChunkAlignment == 0) << describe(c);
        ASSERT_EQ(e.bytes % c.elementBytes, 0U) << describe(c);
        position += e.bytes;
      }
    ASSERT_EQ(position, c.count * c.elementBytes) << describe(c);
  }
}

TEST(PlanShape, MessagesFitTheirSlots) {
  for (const Case& c : cases()) {
    if (c.messageChunks == 0) continue;
    const PlanShape shape(specOf(c), c.count, c.elementBytes, c.slotBytes);
    EXPECT_LE(c.messageChunks * shape.chunkBytes(0, 0), c.slotBytes) << describe(c);
  }
}

TEST(PlanShape, NoRoundIsEmptyButTheFirst) {
  for (const Case& c : cases()) {
    const PlanShape shape(specOf(c), c.count, c.elementBytes, c.slotBytes);
    if (shape.rounds() > 1) {
      EXPECT_GT(shape.chunkBytes(0, shape.rounds() - 1), 0U) << describe(c);
    }
    if (c.messageChunks == 0) {
      EXPECT_EQ(shape.rounds(), 1) << describe(c);
    }
  }
}

TEST(PlanShape, AChunkIsAsLongInEveryBlockAndBuffer) {
  const Case c{3, 1, 1001, 4, 512};
  const PlanSpec spec = specOf(c, Collective::ReduceScatter);
  const PlanShape shape(spec, c.count, c.elementBytes, c.slotBytes);
  for (int64_t round = 0; round < shape.rounds(); ++round)
    for (uint32_t block = 0; block < 4; ++block)
      for (uint32_t division = 0; division < 3; ++division) {
        const uint32_t chunk = chunkOf(spec, block, division);
        const Extent in = shape.extent(Buffer::In, chunk, round);
        const Extent out = shape.extent(Buffer::Out, division, round);
        EXPECT_EQ(in.bytes, out.bytes);
        EXPECT_EQ(in.bytes, shape.chunkBytes(chunk, round));
        EXPECT_EQ(in.offset, out.offset + block * 1001 * 4);
      }
}

TEST(PlanShape, ScratchChunksDoNotOverlapAndFit) {
  const Case c{3, 1, 1001, 4, 512};
  const PlanShape shape(specOf(c), c.count, c.elementBytes, c.slotBytes);
  for (int64_t round = 0; round < shape.rounds(); ++round) {
    uint64_t end = 0;
    for (uint32_t chunk = 0; chunk < 9; ++chunk) {
      const Extent e = shape.extent(Buffer::Scratch, chunk, round);
      EXPECT_GE(e.offset, end);
      EXPECT_EQ(e.offset % kChunkAlignment, 0U);
      end = e.offset + e.bytes;
    }
    EXPECT_LE(end, shape.scratchBytes());
  }
}

TEST(PlanShape, RefusesWhatCannotBe) {
  EXPECT_THROW(PlanShape(specOf({1, 1, 1, 4, 512}), UINT64_MAX / 4, 4, 512), Error);
  EXPECT_THROW(PlanShape(specOf({1, 16, 1, 4, 512}), 1, 4, 512), Error);
}

}  // namespace
}  // namespace tutti::plan
