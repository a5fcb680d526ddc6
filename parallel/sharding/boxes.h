#pragma once

// Which elements of a tensor a rank holds: a box of it, one range per dimension.

#include <cstdint>
#include <vector>

#include "parallel/sharding/mesh_shape.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// Elements [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
/// Part `index` of `count` elements cut into `parts`: sizes differ by one at most, the larger
/// first.
Range partOf(int64_t count, int parts, int index);

/// Throws InvalidArgument when `layout` names an axis twice, or splits a dimension that a tensor of
/// so many dimensions does not have.
void requireSound(const Layout& layout, int dimensions);

/// What the rank at `place` holds. Axes cut a dimension one after the other, the first named first,
/// and a cut may be uneven. No rank holds more than the one at place 0 along all axes. Throws
/// InvalidArgument as requireSound().
std::vector<Range> boxOf(const Shape& global, const Layout& layout, const MeshShape& mesh,
                         const MeshPlace& place);
/// Its extents.
Shape localShape(const Shape& global, const Layout& layout, const MeshShape& mesh,
                 const MeshPlace& place);
/// The shape of the tensor where every rank holds as much of it as this one does.
Shape evenGlobalShape(const Shape& local, const Layout& layout, const MeshShape& mesh);

}  // namespace tutti::parallel
