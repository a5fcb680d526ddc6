#include "parallel/mesh/redistribute.h"

#include <cstring>
#include <vector>

namespace tutti::parallel {

namespace {

/// Rows of a tensor are what is adjacent however it is cut in `dimension`.
int64_t rowsOutside(const Tensor& tensor, int dimension) {
  int64_t rows = 1;
  for (int d = 0; d < dimension; ++d) rows *= tensor.shape[d];
  return rows;
}

/// Between two of one shape, of which each is contiguous or a part in `dimension` of one that is;
/// on the stream, if there is one.
void copyBlock(const Tensor& from, const Tensor& to, int dimension, StreamRef stream) {
  if (from.count() == 0) return;
  const auto pitch = [&](const Tensor& tensor) {
    return dimension == 0
               ? 0
               : static_cast<size_t>(tensor.strides[dimension - 1]) * sizeOf(tensor.type);
  };
  const int64_t rows = rowsOutside(from, dimension);
  const size_t bytes = from.bytes() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    auto* const target = static_cast<std::byte*>(to.data) + row * pitch(to);
    const auto* const source = static_cast<const std::byte*>(from.data) + row * pitch(from);
    if (stream)
      copy({target, source, bytes}, stream);
    else
      std::memcpy(target, source, bytes);
  }
}

/// A tensor cut in one dimension into a block for each rank of an axis.
class RedistributionCut {
 public:
  RedistributionCut(const Tensor& tensor, int dimension, int ranks, StreamRef stream)
      : tensor_(tensor), dimension_(dimension), ranks_(ranks), stream_(stream) {}

  bool even() const { return tensor_.shape[dimension_] % ranks_ == 0; }
  /// Blocks lie one after the other as they are.
  bool packed() const { return rowsOutside(tensor_, dimension_) == 1; }

  Tensor block(int rank) const {
    const Range range = partOf(tensor_.shape[dimension_], ranks_, rank);
    return tensor_.part(dimension_, range.begin, range.count());
  }
  std::vector<size_t> counts() const {
    std::vector<size_t> counts;
    for (int rank = 0; rank < ranks_; ++rank)
      counts.push_back(static_cast<size_t>(block(rank).count()));
    return counts;
  }

  /// Copies all blocks into memory where they lie one after the other, or from there.
  void pack(void* memory) const {
    forBlocks(memory, [&](const Tensor& own, const Tensor& dense) {
      copyBlock(own, dense, dimension_, stream_);
    });
  }
  void unpack(void* memory) const {
    forBlocks(memory, [&](const Tensor& own, const Tensor& dense) {
      copyBlock(dense, own, dimension_, stream_);
    });
  }

 private:
  template <class Visit>
  void forBlocks(void* memory, const Visit& visit) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Tensor own = block(rank), dense(memory, own.type, own.shape);
      visit(own, dense);
      memory = static_cast<char*>(memory) + dense.bytes();
    }
  }

  const Tensor tensor_;
  const int dimension_, ranks_;
  const StreamRef stream_;
};

/// Performs one step along an axis of several ranks.
class StepRunner {
 public:
  StepRunner(Purpose purpose, DeviceMesh& mesh, const RedistributionStep& step, Arena& memory)
      : purpose_(purpose),
        group_(*mesh.communicator({step.axis})),
        step_(step),
        memory_(memory),
        stream_(mesh.stream()),
        dry_(mesh.dry()) {}

  /// `to` is memory for the result.
  void run(const Tensor& from, const Tensor& to) {
    const ArenaScope scope(memory_);
    switch (step_.move) {
      case Move::AllReduce: return allReduce(from, to);
      case Move::ReduceScatter: return reduceScatter(from, to);
      case Move::AllGather: return allGather(from, to);
      case Move::AllToAll: return allToAll(from, to);
      case Move::Slice: return slice(from, to);
    }
  }

 private:
  RedistributionCut cut(const Tensor& tensor, int dimension) const {
    return {tensor, dimension, group_.size(), stream_};
  }

  /// The tensor's blocks, one after the other.
  const void* packed(const Tensor& tensor, const RedistributionCut& blocks) {
    if (blocks.packed()) return tensor.data;
    const Tensor memory = memory_.allocate(tensor.type, tensor.shape);
    if (!dry_) blocks.pack(memory.data);
    return memory.data;
  }
  /// Where to put them.
  void* landing(const Tensor& tensor, const RedistributionCut& blocks) {
    return blocks.packed() ? tensor.data : memory_.allocate(tensor.type, tensor.shape).data;
  }
  void land(void* memory, const RedistributionCut& blocks) const {
    if (!blocks.packed() && !dry_) blocks.unpack(memory);
  }

  void slice(const Tensor& from, const Tensor& to) const {
    if (!dry_) copyBlock(cut(from, step_.to).block(group_.rank()), to, step_.to, stream_);
  }

  void allReduce(const Tensor& from, const Tensor& to) {
    group_.allReduce(purpose_, {.send = from.data,
                                .recv = to.data,
                                .count = static_cast<size_t>(from.count()),
                                .type = from.type});
  }

  // Whether blocks are even is the same for all ranks of an axis, which share the other axes' cuts.

  void reduceScatter(const Tensor& from, const Tensor& to) {
    const RedistributionCut blocks = cut(from, step_.to);
    const std::vector<size_t> counts = blocks.counts();
    const void* const send = packed(from, blocks);
    if (blocks.even())
      group_.reduceScatter(purpose_,
                           {.send = send, .recv = to.data, .count = counts[0], .type = from.type});
    else
      group_.reduceScatterV(
          purpose_,
          {.send = send, .recv = to.data, .counts = counts, .offsets = {}, .type = from.type});
  }

  void allGather(const Tensor& from, const Tensor& to) {
    const RedistributionCut blocks = cut(to, step_.from);
    const std::vector<size_t> counts = blocks.counts();
    void* const recv = landing(to, blocks);
    if (blocks.even())
      group_.allGather(purpose_,
                       {.send = from.data, .recv = recv, .count = counts[0], .type = from.type});
    else
      group_.allGatherV(
          purpose_,
          {.send = from.data, .recv = recv, .counts = counts, .offsets = {}, .type = from.type});
    land(recv, blocks);
  }

  void allToAll(const Tensor& from, const Tensor& to) {
    const RedistributionCut sent = cut(from, step_.to), received = cut(to, step_.from);
    const std::vector<size_t> sendCounts = sent.counts(), recvCounts = received.counts();
    const void* const send = packed(from, sent);
    void* const recv = landing(to, received);
    if (sent.even() && received.even())
      group_.allToAll(purpose_,
                      {.send = send, .recv = recv, .count = sendCounts[0], .type = from.type});
    else
      group_.allToAllV(purpose_, {.send = send,
                                  .sendCounts = sendCounts,
                                  .sendOffsets = {},
                                  .recv = recv,
                                  .recvCounts = recvCounts,
                                  .recvOffsets = {},
                                  .type = from.type});
    land(recv, received);
  }

  const Purpose purpose_;
  MeshCommunicator& group_;
  const RedistributionStep& step_;
  Arena& memory_;
  const StreamRef stream_;
  const bool dry_;  // blocks are not packed
};

}  // namespace

Tensor redistribute(Purpose purpose, DeviceMesh& mesh, const Tensor& x, const Shape& global,
                    const Layout& to, Arena& memory) {
  const auto partBy = [&](const Layout& layout) {
    return localShape(global, layout, mesh.shape(), mesh.place());
  };
  require(x.contiguous(), "only a contiguous tensor can be redistributed: ", x);
  if (x.shape != partBy(x.layout))
    fail(ErrorCode::InvalidArgument, "rank ", mesh.rank(), " holds ", partBy(x.layout), " of a ",
         global, " that lies as ", x.layout.describe(global.rank()), ", and not ", x.shape);
  const Arena::Mark start = memory.mark();
  Tensor now = x;
  bool moved = false;
  for (const RedistributionStep& step : redistribution(global, mesh.shape(), x.layout, to)) {
    if (mesh.extent(step.axis) > 1) {
      const Tensor from = now;
      now = memory.allocate(x.type, partBy(step.after));
      StepRunner(purpose, mesh, step, memory).run(from, now);
      if (moved) now = memory.retain(start, now);  // what lay between is not needed any more
      moved = true;
    }
    now.layout = step.after;
  }
  return now;
}

}  // namespace tutti::parallel
