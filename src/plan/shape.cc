#include <algorithm>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/plan/plan.h"

namespace tutti::plan {
namespace {

constexpr uint64_t kAlignment = kChunkAlignment;

uint64_t ceilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

uint64_t endOf(std::span<const Block> blocks) {
  uint64_t end = 0;
  for (const Block& block : blocks)
    if (block.bytes > 0) end = std::max(end, block.offset + block.bytes);
  return end;
}

PlanShape::PlanShape(const PlanSpec& spec, uint64_t count, size_t elementBytes, size_t slotBytes)
    : divisions_(spec.divisions) {
  TUTTI_REQUIRE(elementBytes == 0 || count <= UINT64_MAX / 2 / elementBytes / spec.ranks, "count ",
                count, " times ", spec.ranks, " ranks does not fit in memory");
  cut(spec, count * elementBytes, slotBytes);
}

PlanShape::PlanShape(const PlanSpec& spec, std::span<const Block> blocks, int rank,
                     size_t slotBytes)
    : divisions_(spec.divisions),
      manyIn_(givesBlocks(spec.collective)),
      manyOut_(getsBlocks(spec.collective)),
      own_(static_cast<uint32_t>(rank)) {
  TUTTI_ASSERT(spec.unevenSafe && blocks.size() == static_cast<size_t>(spec.ranks), blocks.size(),
               " uneven blocks for ", spec.describe());
  cut(spec, std::ranges::max_element(blocks, {}, &Block::bytes)->bytes, slotBytes);
  for (const Block& block : blocks)
    cuts_.push_back({block, base::roundUp(ceilDivide(ceilDivide(block.bytes, divisions_),
                                                     static_cast<uint64_t>(rounds_)),
                                          kAlignment)});
}

void PlanShape::cut(const PlanSpec& spec, uint64_t largestBlock, size_t slotBytes) {
  blockBytes_ = largestBlock;
  uint64_t largestChunk = UINT64_MAX / 2;
  if (spec.messageChunks > 0) {
    largestChunk = slotBytes / spec.messageChunks / kAlignment * kAlignment;
    TUTTI_ASSERT(largestChunk > 0, "slots of ", slotBytes, " bytes cannot carry ",
                 spec.messageChunks, " chunks");
  }
  const uint64_t wanted = std::max<uint64_t>(1, ceilDivide(blockBytes_, divisions_));
  chunkBytes_ = base::roundUp(wanted, kAlignment);
  if (wanted > largestChunk) {
    // Equal rounds: the last one is short by less than one alignment unit per chunk.
    chunkBytes_ = base::roundUp(ceilDivide(wanted, ceilDivide(wanted, largestChunk)), kAlignment);
    rounds_ = static_cast<int64_t>(ceilDivide(blockBytes_, chunkBytes_ * divisions_));
  }
  scratchBytes_ = spec.scratchBlocks * chunkBytes_ * divisions_;
}

inline PlanShape::Cut PlanShape::cutOf(Buffer buffer, uint32_t chunk) const {
  const uint64_t block = chunk / divisions_;
  if (cuts_.empty()) return {{block * blockBytes_, blockBytes_}, chunkBytes_};
  if (buffer == Buffer::In ? manyIn_ : manyOut_) return cuts_[block];
  return {{0, cuts_[own_].block.bytes}, cuts_[own_].chunkBytes};
}

inline Extent PlanShape::division(const Cut& cut, uint32_t chunk, int64_t round) const {
  const uint64_t begin =
      (static_cast<uint64_t>(round) * divisions_ + chunk % divisions_) * cut.chunkBytes;
  const uint64_t end = std::min(begin + cut.chunkBytes, cut.block.bytes);
  return begin < end ? Extent{begin, end - begin} : Extent{std::min(begin, cut.block.bytes), 0};
}

Extent PlanShape::extent(Buffer buffer, uint32_t chunk, int64_t round) const {
  const Cut cut = cutOf(buffer, chunk);
  Extent e = division(cut, chunk, round);
  if (buffer == Buffer::Scratch)
    e.offset = chunk * chunkBytes_;
  else
    e.offset += cut.block.offset;
  return e;
}

uint64_t PlanShape::chunkBytes(uint32_t chunk, int64_t round) const {
  // Messages name chunks as the buffer of all blocks does.
  return division(cutOf(manyIn_ ? Buffer::In : Buffer::Out, chunk), chunk, round).bytes;
}

uint64_t PlanShape::chunkBytes(const Port& port, uint32_t index, int64_t round) const {
  const uint32_t chunk = port.chunk + index;
  if (port.kind == Port::Kind::Channel) return chunkBytes(chunk, round);
  return division(cutOf(port.buffer, chunk), chunk, round).bytes;
}

}  // namespace tutti::plan
