#include "parallel/nn/context_parallel.h"

namespace tutti::parallel {

ContextParallel::ContextParallel(DeviceMesh& mesh)
    : group_(mesh.communicator({Axis::Context})),
      ranks_(mesh.extent(Axis::Context)),
      rank_(mesh.index(Axis::Context)),
      mesh_(mesh),
      memory_("positions", mesh.backing(), size_t{1} << 12),
      stream_(ranks_ > 1 ? std::make_unique<Stream>(mesh.device()) : nullptr) {}

Shape ContextParallel::own(const Shape& tokens) const {
  return {tokens[0], cutOf(tokens[1]).count(rank_)};
}

Tensor ContextParallel::cut(Kernels& kernels, const Tensor& x, Arena& memory) const {
  if (!cuts()) return x;
  const Tensor part = memory.allocate(x.type, own(x.shape));
  int64_t begin = 0;
  for (const Range& piece : cutOf(x.shape[1]).pieces(rank_)) {
    kernels.copy(x.part(1, piece.begin, piece.count()), part.part(1, begin, piece.count()));
    begin += piece.count();
  }
  return part;
}

Tensor ContextParallel::positions(int64_t length) {
  if (!cuts()) return {};
  if (length != positionsOf_) {
    numbers_.clear();
    for (const Range& piece : cutOf(length).pieces(rank_))
      for (int64_t t = piece.begin; t < piece.end; ++t) numbers_.push_back(static_cast<int32_t>(t));
    memory_.rewind({});
    positions_ =
        mesh_.onDevice(Tensor(numbers_.data(), DType::Int32, {std::ssize(numbers_)}), memory_);
    positionsOf_ = length;
  }
  return positions_;
}

Tensor ContextParallel::blockOf(const Tensor& blocks, const SequenceCut& cut, int rank) const {
  int64_t before = 0;
  for (int r = 0; r < rank; ++r) before += cut.count(r);
  const int64_t batch = blocks.shape[0], width = blocks.shape[2];
  const Tensor rows = blocks.matrix().rows(batch * before, batch * cut.count(rank));
  return rows.view({batch, cut.count(rank), width});
}

/// Calls visit(part of a block, the same positions of `all`).
template <class Visit>
void ContextParallel::forPieces(const Tensor& blocks, const Tensor& all, const Visit& visit) const {
  const SequenceCut cut = cutOf(all.shape[1]);
  for (int rank = 0; rank < ranks_; ++rank) {
    const Tensor block = blockOf(blocks, cut, rank);
    int64_t begin = 0;
    for (const Range& piece : cut.pieces(rank)) {
      visit(block.part(1, begin, piece.count()), all.part(1, piece.begin, piece.count()));
      begin += piece.count();
    }
  }
}

void ContextParallel::fromBlocks(Kernels& kernels, const Tensor& blocks, const Tensor& all) const {
  forPieces(blocks, all, [&](const Tensor& from, const Tensor& to) { kernels.copy(from, to); });
}

void ContextParallel::toBlocks(Kernels& kernels, const Tensor& all, const Tensor& blocks) const {
  forPieces(blocks, all, [&](const Tensor& to, const Tensor& from) { kernels.copy(from, to); });
}

Tensor ContextParallel::whole(Purpose purpose, Kernels& kernels, const Tensor& x, int64_t length,
                              Arena& memory) {
  if (!cuts()) return x;
  const SequenceCut cut = cutOf(length);
  const int64_t batch = x.shape[0], width = x.shape[2];
  const Tensor all = memory.allocate(x.type, {batch, length, width});
  const ArenaScope scope(memory);
  const Tensor blocks = memory.allocate(x.type, all.shape);
  std::vector<size_t> counts;
  for (int rank = 0; rank < ranks_; ++rank)
    counts.push_back(static_cast<size_t>(batch * cut.count(rank) * width));
  group_->allGatherV(
      purpose,
      {.send = x.data, .recv = blocks.data, .counts = counts, .offsets = {}, .type = x.type});
  fromBlocks(kernels, blocks, all);
  return all;
}

}  // namespace tutti::parallel
