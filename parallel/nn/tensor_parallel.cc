#include "parallel/nn/tensor_parallel.h"

#include <algorithm>
#include <vector>

namespace tutti::parallel {

bool headsFit(int64_t heads, int64_t kvHeads, int64_t ranks) {
  return ranks > 0 && heads % ranks == 0 && (kvHeads % ranks == 0 || ranks % kvHeads == 0);
}

Layout cutOverTensor(int dimension) {
  Layout layout;
  layout.dims[static_cast<size_t>(dimension)] = {Axis::Tensor, Axis::Rep};
  return layout;
}

void setTensorRanks(MeshShape& shape, int ranks, int64_t heads, int64_t kvHeads) {
  require(heads > 0 && kvHeads > 0 && heads % kvHeads == 0, heads, " heads do not share ", kvHeads,
          " heads of keys and values evenly");
  if (!headsFit(heads, kvHeads, ranks)) {
    int64_t below = std::min<int64_t>(std::max(ranks, 1), heads), above = below;
    while (!headsFit(heads, kvHeads, below)) --below;  // 1 does
    while (!headsFit(heads, kvHeads, above)) ++above;  // `heads` does
    fail(ErrorCode::InvalidArgument, heads, " heads, ", kvHeads,
         " of keys and values, cannot be dealt out to ", ranks, " ranks of tensor parallelism: ",
         below == above ? message(below, " would do") : message(below, " or ", above, " would do"));
  }
  shape[Axis::Tensor] = static_cast<int>(std::min<int64_t>(ranks, kvHeads));
  shape[Axis::Rep] = ranks / shape[Axis::Tensor];
}

void requireHeadsFit(const MeshShape& shape, int64_t heads, int64_t kvHeads) {
  MeshShape fitting = shape;
  setTensorRanks(fitting, shape.ranks(kTensorAxes), heads, kvHeads);
  require(fitting == shape, heads, " heads, ", kvHeads, " of keys and values, need a mesh of ",
          fitting.describe(), ", not ", shape.describe());
}

TensorParallel::TensorParallel(DeviceMesh& mesh)
    : group_(mesh.communicator(kTensorAxes)),
      ranks_(mesh.extent(kTensorAxes)),
      rank_(mesh.index(kTensorAxes)),
      keyParts_(mesh.extent(Axis::Tensor)) {}

std::vector<size_t> TensorParallel::countsOf(int64_t rows, int64_t width) const {
  std::vector<size_t> counts;
  for (int rank = 0; rank < ranks_; ++rank)
    counts.push_back(static_cast<size_t>(partOf(rows, ranks_, rank).count() * width));
  return counts;
}

Tensor TensorParallel::allRows(Purpose purpose, const Tensor& x, int64_t tokens, bool sequence,
                               Arena& memory) {
  if (!cutsRows(sequence)) return x;
  const int64_t width = x.shape[1];
  ensure(x.shape[0] == rowsOf(tokens).count(), "rank ", rank_, " of ", ranks_, " has ", x,
         " of a matrix of ", tokens, " rows");
  const Tensor all = memory.allocate(x.type, {tokens, width});
  if (tokens % ranks_ == 0)
    group_->allGather(purpose, {.send = x.data,
                                .recv = all.data,
                                .count = static_cast<size_t>(x.count()),
                                .type = x.type});
  else
    group_->allGatherV(purpose, {.send = x.data,
                                 .recv = all.data,
                                 .counts = countsOf(tokens, width),
                                 .offsets = {},
                                 .type = x.type});
  counters.allGather.add(all.bytes());
  return all;
}

Tensor TensorParallel::addUp(Purpose purpose, const Tensor& summands, bool sequence,
                             Arena& memory) {
  if (ranks() == 1) return summands;
  if (!sequence) {
    group_->allReduce(purpose, {.send = summands.data,
                                .recv = summands.data,
                                .count = static_cast<size_t>(summands.count()),
                                .type = summands.type});
    counters.allReduce.add(summands.bytes());
    return summands;
  }
  const int64_t tokens = summands.shape[0], width = summands.shape[1];
  const Tensor rows = memory.allocate(summands.type, {rowsOf(tokens).count(), width});
  if (tokens % ranks_ == 0)
    group_->reduceScatter(purpose, {.send = summands.data,
                                    .recv = rows.data,
                                    .count = static_cast<size_t>(rows.count()),
                                    .type = rows.type});
  else
    group_->reduceScatterV(purpose, {.send = summands.data,
                                     .recv = rows.data,
                                     .counts = countsOf(tokens, width),
                                     .offsets = {},
                                     .type = rows.type});
  counters.reduceScatter.add(summands.bytes());
  return rows;
}

Tensor TensorParallel::stack(Purpose purpose, const Tensor& x, Arena& memory) {
  if (ranks() == 1) return x.view({1, x.count()});
  const Tensor all = memory.allocate(x.type, {ranks_, x.count()});
  group_->allGather(
      purpose,
      {.send = x.data, .recv = all.data, .count = static_cast<size_t>(x.count()), .type = x.type});
  counters.allGather.add(all.bytes());
  return all;
}

}  // namespace tutti::parallel
