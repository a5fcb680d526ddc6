#include "parallel/sharding/mesh_shape.h"

#include <limits>
#include <optional>

#include "parallel/sharding/named_numbers.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr int kMostRanks = std::numeric_limits<int>::max();

std::optional<Axis> parseAxis(const std::string& name) {
  for (int i = 0; i < kAxisCount; ++i)
    if (name == toString(static_cast<Axis>(i))) return static_cast<Axis>(i);
  return std::nullopt;
}

std::string axisNames() {
  std::string names;
  for (int i = 0; i < kAxisCount; ++i)
    names += message(i == 0 ? "" : ", ", toString(static_cast<Axis>(i)));
  return names;
}

}  // namespace

int MeshShape::ranks() const {
  int64_t product = 1;
  for (const int extent : extents) {
    require(extent >= 1, "an axis of a mesh has one rank at least, not ", extent);
    product *= extent;
    if (product > kMostRanks)
      fail(ErrorCode::InvalidArgument, "a mesh of ", describe(), " has more than ", kMostRanks,
           " ranks");
  }
  return static_cast<int>(product);
}

int MeshShape::ranks(AxisSet axes) const {
  int product = 1;
  for (int i = 0; i < kAxisCount; ++i)
    if (axes.contains(static_cast<Axis>(i))) product *= (*this)[static_cast<Axis>(i)];
  return product;
}

MeshShape MeshShape::parse(const std::string& text) {
  MeshShape shape;
  for (const auto& [name, extent] : parseNamedNumbers("the mesh", text, kMostRanks)) {
    const auto axis = parseAxis(name);
    require(axis.has_value(), "the mesh \"", text, "\": there is no axis ", name, " among ",
            axisNames());
    shape[*axis] = static_cast<int>(extent);
  }
  shape.ranks();
  return shape;
}

MeshShape MeshShape::along(Axis axis, int ranks) {
  MeshShape shape;
  shape[axis] = ranks;
  return shape;
}

std::string MeshShape::describe() const {
  std::string text;
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if ((*this)[axis] == 1) continue;
    text += message(text.empty() ? "" : ",", toString(axis), "=", (*this)[axis]);
  }
  return text.empty() ? "one rank" : text;
}

MeshPlace placeOf(const MeshShape& shape, int rank) {
  MeshPlace place{};
  for (size_t axis = kAxisCount; axis-- > 0; rank /= shape.extents[axis])
    place[axis] = rank % shape.extents[axis];
  return place;
}

int rankAt(const MeshShape& shape, const MeshPlace& place) {
  int rank = 0;
  for (size_t axis = 0; axis < kAxisCount; ++axis) rank = rank * shape.extents[axis] + place[axis];
  return rank;
}

std::vector<int> ranksAlong(const MeshShape& shape, int rank, AxisSet axes) {
  const MeshPlace own = placeOf(shape, rank);
  std::vector<int> ranks;
  for (int other = 0; other < shape.ranks(); ++other) {
    MeshPlace place = placeOf(shape, other);
    for (size_t i = 0; i < place.size(); ++i)
      if (axes.contains(static_cast<Axis>(i))) place[i] = own[i];
    if (place == own) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace tutti::parallel
