#include "parallel/nn/head_exchange.h"

#include <algorithm>

namespace tutti::parallel {

namespace {

int64_t widthOf(const std::vector<Range>& columns) {
  int64_t width = 0;
  for (const Range& range : columns) width += range.count();
  return width;
}

/// Calls visit(columns of x, the same ones of a rank's block).
template <class Visit>
void forColumns(const Tensor& x, const Tensor& block, const std::vector<Range>& columns,
                const Visit& visit) {
  int64_t begin = 0;
  for (const Range& range : columns) {
    visit(x.part(2, range.begin, range.count()), block.part(2, begin, range.count()));
    begin += range.count();
  }
}

}  // namespace

void requireHeadsShared(int ranks, int64_t heads, int64_t kvHeads) {
  require(
      headsFit(heads, kvHeads, ranks), heads, " heads, ", kvHeads,
      " of keys and values, cannot be exchanged among ", ranks,
      " ranks of context parallelism, which have to divide them: with ring attention any number "
      "will do");
}

HeadExchange::HeadExchange(ParallelContext& context, int64_t heads, int64_t kvHeads, int64_t length)
    : context_(context), heads_(heads), kvHeads_(kvHeads), cut_(context.sequences.cutOf(length)) {}

int64_t HeadExchange::heads() const { return heads_ / cut_.ranks; }
int64_t HeadExchange::kvHeads() const { return std::max<int64_t>(kvHeads_ / cut_.ranks, 1); }

/// By rank: its queries, its keys, its values.
std::vector<HeadExchange::Columns> HeadExchange::inputColumns(int64_t headWidth) const {
  std::vector<Columns> all;
  for (int rank = 0; rank < cut_.ranks; ++rank) {
    const int64_t q = rank * heads() * headWidth;
    const int64_t k = (heads_ + rank * kvHeads_ / cut_.ranks) * headWidth;
    const int64_t v = k + kvHeads_ * headWidth, kvWidth = kvHeads() * headWidth;
    all.push_back({{q, q + heads() * headWidth}, {k, k + kvWidth}, {v, v + kvWidth}});
  }
  return all;
}

std::vector<HeadExchange::Columns> HeadExchange::resultColumns(int64_t headWidth) const {
  std::vector<Columns> all;
  const int64_t width = heads() * headWidth;
  for (int rank = 0; rank < cut_.ranks; ++rank) all.push_back({{rank * width, (rank + 1) * width}});
  return all;
}

/// The blocks of all ranks, of one of the two sides as large as the others', and of the other as
/// the ranks have positions.
void HeadExchange::exchange(Purpose purpose, const Tensor& send, const Tensor& recv, bool toRows) {
  const Tensor& heads = toRows ? send : recv;
  const int64_t each = heads.shape[0] * heads.shape[2];  // of a position
  std::vector<size_t> equal, own;
  for (int rank = 0; rank < cut_.ranks; ++rank) {
    own.push_back(static_cast<size_t>(each * cut_.count(rank)));
    equal.push_back(static_cast<size_t>(each * cut_.count(context_.sequences.rank())));
  }
  context_.sequences.group().allToAllV(purpose, {.send = send.data,
                                                 .sendCounts = toRows ? own : equal,
                                                 .sendOffsets = {},
                                                 .recv = recv.data,
                                                 .recvCounts = toRows ? equal : own,
                                                 .recvOffsets = {},
                                                 .type = send.type});
}

Tensor HeadExchange::toHeads(Purpose purpose, const Tensor& rows,
                             const std::vector<Columns>& columns, Arena& memory) {
  const int64_t batch = rows.shape[0], own = rows.shape[1], width = widthOf(columns[0]);
  const Tensor heads = memory.allocate(rows.type, {batch, cut_.length, width});
  const ArenaScope scope(context_.scratch);
  const Tensor send = context_.scratch.allocate(rows.type, {cut_.ranks, batch, own, width});
  const Tensor recv = context_.scratch.allocate(rows.type, heads.shape);
  for (int rank = 0; rank < cut_.ranks; ++rank)
    forColumns(rows, send.rows(rank, 1).view({batch, own, width}),
               columns[static_cast<size_t>(rank)],
               [&](const Tensor& from, const Tensor& to) { context_.kernels.copy(from, to); });
  exchange(purpose, send, recv, false);
  context_.sequences.fromBlocks(context_.kernels, recv, heads);
  return heads;
}

/// Columns that several ranks have are added up.
Tensor HeadExchange::toRows(Purpose purpose, const Tensor& heads,
                            const std::vector<Columns>& columns, Arena& memory) {
  const int64_t batch = heads.shape[0], own = cut_.count(context_.sequences.rank());
  int64_t end = 0;
  for (const Columns& ranges : columns)
    for (const Range& range : ranges) end = std::max(end, range.end);
  const Tensor rows = memory.allocate(heads.type, {batch, own, end});
  const ArenaScope scope(context_.scratch);
  const Tensor send = context_.scratch.allocate(heads.type, heads.shape);
  const Tensor recv =
      context_.scratch.allocate(heads.type, {cut_.ranks, batch, own, heads.shape[2]});
  context_.sequences.toBlocks(context_.kernels, heads, send);
  exchange(purpose, send, recv, true);
  for (int rank = 0; rank < cut_.ranks; ++rank) {
    const auto at = static_cast<size_t>(rank);
    size_t range = 0;
    forColumns(rows, recv.rows(rank, 1).view({batch, own, heads.shape[2]}), columns[at],
               [&](const Tensor& to, const Tensor& from) {
                 const bool again = rank > 0 && columns[at][range] == columns[at - 1][range];
                 ++range;
                 again ? context_.kernels.add(from, to) : context_.kernels.copy(from, to);
               });
  }
  return rows;
}

Tensor HeadExchange::inputs(const Tensor& rows, Arena& memory) {
  return toHeads(Purpose::HeadInputs, rows, inputColumns(rows.shape[2] / (heads_ + 2 * kvHeads_)),
                 memory);
}

Tensor HeadExchange::inputGradients(const Tensor& heads, Arena& memory) {
  return toRows(Purpose::HeadInputGradients, heads,
                inputColumns(heads.shape[2] / (this->heads() + 2 * kvHeads())), memory);
}

Tensor HeadExchange::results(const Tensor& heads, Arena& memory) {
  return toRows(Purpose::HeadResults, heads, resultColumns(heads.shape[2] / this->heads()), memory);
}

Tensor HeadExchange::resultGradients(const Tensor& rows, Arena& memory) {
  return toHeads(Purpose::HeadResultGradients, rows, resultColumns(rows.shape[2] / heads_), memory);
}

}  // namespace tutti::parallel
