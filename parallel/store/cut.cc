#include "parallel/store/cut.h"

#include <algorithm>

namespace tutti::parallel {

namespace {

constexpr int64_t kLine = 32;  // elements: a cache line or more of any type that weights have

int64_t lines(int64_t elements) { return (elements + kLine - 1) / kLine * kLine; }

/// The places of the ranks that differ from this one along `axes` only, in their order.
std::vector<MeshPlace> placesAlong(const DeviceMesh& mesh, AxisSet axes) {
  std::vector<MeshPlace> places{mesh.place()};
  for (int i = kAxisCount - 1; i >= 0; --i) {
    if (!axes.contains(static_cast<Axis>(i))) continue;
    std::vector<MeshPlace> more;
    for (int at = 0; at < mesh.extent(static_cast<Axis>(i)); ++at)
      for (MeshPlace place : places) {
        place[static_cast<size_t>(i)] = at;
        more.push_back(place);
      }
    places = std::move(more);
  }
  return places;
}

Layout withShards(const Parameter& parameter, AxisSet data, AxisSet shard) {
  Layout layout = parameter.layout;
  require(layout.partial.empty(), parameter.name, " has layout ",
          layout.describe(parameter.global.rank()), ": a weight is not a partial sum");
  requireSound(layout, parameter.global.rank());
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (data.contains(axis) && layout.axes().contains(axis))
      fail(ErrorCode::InvalidArgument, parameter.name, " has layout ",
           layout.describe(parameter.global.rank()), ", and the store's policy uses ",
           toString(axis));
    if (parameter.gradientPartial.axes.contains(axis) &&
        (data.contains(axis) || layout.axes().contains(axis)))
      fail(ErrorCode::InvalidArgument, "the gradient of ", parameter.name, " is partial over ",
           toString(axis), ", which ", data.contains(axis) ? "the store's policy uses" : "cuts it");
    if (shard.contains(axis)) layout.dims[0].append(axis);
  }
  return layout;
}

Piece cutPiece(const Parameter& parameter, const DeviceMesh& mesh, AxisSet data, AxisSet shard) {
  require(parameter.global.rank() >= 1, parameter.name, " has no dimension");
  Piece piece{.parameter = &parameter, .layout = withShards(parameter, data, shard)};
  const auto whole = boxOf(parameter.global, parameter.layout, mesh.shape(), mesh.place());
  piece.local = localShape(parameter.global, parameter.layout, mesh.shape(), mesh.place());
  for (int d = 1; d < piece.local.rank(); ++d) piece.rowElements *= piece.local[d];
  for (const MeshPlace& place : placesAlong(mesh, shard)) {
    const Range rows = boxOf(parameter.global, piece.layout, mesh.shape(), place)[0];
    piece.rows.push_back({rows.begin - whole[0].begin, rows.end - whole[0].begin});
  }
  piece.box = boxOf(parameter.global, piece.layout, mesh.shape(), mesh.place());
  return piece;
}

}  // namespace

Shape Piece::shape(const Range& range) const {
  Shape result = local;
  result[0] = range.count();
  return result;
}

std::vector<BlockRows> blockRows(const Piece& piece, const Tensor& full, const Tensor& blocks) {
  std::vector<BlockRows> parts;
  const int64_t shards = std::ssize(piece.rows);
  for (int64_t first = 0, end = 0; first < shards; first = end) {
    const Range rows = piece.rows[static_cast<size_t>(first)];
    int64_t next = rows.begin;
    for (; end < shards && piece.rows[static_cast<size_t>(end)] == Range{next, next + rows.count()};
         ++end)
      next += rows.count();
    const int64_t ranks = end - first, elements = rows.count() * piece.rowElements;
    if (elements > 0)
      parts.push_back({full.rows(rows.begin, ranks * rows.count()).view({ranks, elements}),
                       blocks.rows(first, ranks).part(1, 0, elements)});
  }
  return parts;
}

Cut cutParameters(const std::vector<Parameter*>& parameters, const DeviceMesh& mesh,
                  const ShardPolicy& policy) {
  Cut cut;
  const AxisSet shard = policy.optimizer ? policy.shard : AxisSet{};
  cut.shards = mesh.extent(shard);
  cut.shard = mesh.index(shard);
  for (const Parameter* parameter : parameters) {
    if (cut.pieces.empty() || cut.pieces.back().parameter->unit != parameter->unit)
      cut.units.push_back({.begin = static_cast<int>(cut.pieces.size())});
    UnitCut& unit = cut.units.back();
    Piece piece = cutPiece(*parameter, mesh, policy.data(), shard);
    int64_t most = 0;
    for (const Range& rows : piece.rows) most = std::max(most, rows.count());
    piece.unit = static_cast<int>(cut.units.size()) - 1;
    piece.full = unit.full;
    piece.block = unit.block;
    unit.full += lines(piece.local.count());
    unit.block += lines(most * piece.rowElements);
    cut.pieces.push_back(std::move(piece));
    unit.end = static_cast<int>(cut.pieces.size());
  }
  return cut;
}

}  // namespace tutti::parallel
