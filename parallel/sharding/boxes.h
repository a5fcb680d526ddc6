#pragma once

// Which elements of a tensor a rank holds: a box of it, one range per dimension.

#include <cstdint>

#include "parallel/sharding/mesh_shape.h"
#include "parallel/tensor/box.h"

namespace tutti::parallel {

/// Part `index` of `count` elements cut into `parts`: sizes differ by one at most, the larger
/// first.
Range partOf(int64_t count, int parts, int index);

/// Throws InvalidArgument when `layout` names an axis twice, or splits a dimension that a tensor of
/// so many dimensions does not have.
void requireSound(const Layout& layout, int dimensions);

/// What the rank at `place` holds. Axes cut a dimension one after the other, the first named first,
/// and a cut may be uneven. No rank holds more than the one at place 0 along all axes. Throws
/// InvalidArgument as requireSound().
Box boxOf(const Shape& global, const Layout& layout, const MeshShape& mesh, const MeshPlace& place);
/// Its extents.
Shape localShape(const Shape& global, const Layout& layout, const MeshShape& mesh,
                 const MeshPlace& place);

}  // namespace tutti::parallel
