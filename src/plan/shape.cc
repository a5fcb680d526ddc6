#include <algorithm>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/plan/plan.h"

namespace tutti::plan {
namespace {

constexpr uint64_t kAlignment = kChunkAlignment;

uint64_t ceilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Shape::Shape(const PlanSpec& spec, uint64_t count, size_t elementBytes, size_t slotBytes)
    : divisions_(spec.divisions) {
  TUTTI_REQUIRE(elementBytes == 0 || count <= UINT64_MAX / 2 / elementBytes / spec.ranks, "count ",
                count, " times ", spec.ranks, " ranks does not fit in memory");
  blockBytes_ = count * elementBytes;
  uint64_t largestChunk = UINT64_MAX / 2;
  if (spec.messageChunks > 0) {
    largestChunk = slotBytes / spec.messageChunks / kAlignment * kAlignment;
    TUTTI_ASSERT(largestChunk > 0, "slots of ", slotBytes, " bytes cannot carry ",
                 spec.messageChunks, " chunks");
  }
  const uint64_t wanted = std::max<uint64_t>(1, ceilDivide(blockBytes_, divisions_));
  // Equal rounds: the last one is short by less than one alignment unit per chunk.
  rounds_ = static_cast<int64_t>(ceilDivide(wanted, largestChunk));
  chunkBytes_ = base::roundUp(ceilDivide(wanted, static_cast<uint64_t>(rounds_)), kAlignment);
  roundBytes_ = chunkBytes_ * divisions_;
  rounds_ = std::max<int64_t>(1, static_cast<int64_t>(ceilDivide(blockBytes_, roundBytes_)));
  scratchBytes_ = spec.scratchBlocks * roundBytes_;
}

Extent Shape::division(uint32_t chunk, int64_t round) const {
  const uint64_t begin =
      static_cast<uint64_t>(round) * roundBytes_ + (chunk % divisions_) * chunkBytes_;
  const uint64_t end = std::min(begin + chunkBytes_, blockBytes_);
  return begin < end ? Extent{begin, end - begin} : Extent{std::min(begin, blockBytes_), 0};
}

Extent Shape::extent(Buffer buffer, uint32_t chunk, int64_t round) const {
  Extent e = division(chunk, round);
  const uint64_t block = chunk / divisions_;
  if (buffer == Buffer::Scratch)
    e.offset = block * roundBytes_ + (chunk % divisions_) * chunkBytes_;
  else
    e.offset += block * blockBytes_;
  return e;
}

}  // namespace tutti::plan
