#include "parallel/sharding/boxes.h"

#include <algorithm>

namespace tutti::parallel {

Range partOf(int64_t count, int parts, int index) {
  const int64_t each = count / parts, larger = count % parts;
  const int64_t begin = each * index + std::min<int64_t>(index, larger);
  return {begin, begin + each + (index < larger ? 1 : 0)};
}

void requireSound(const Layout& layout, int dimensions) {
  AxisSet seen = layout.partial;
  for (int d = 0; d < kMaxDims; ++d) {
    const AxisList& axes = layout.dims[static_cast<size_t>(d)];
    require(d < dimensions || axes.empty(), "a layout splits dimension ", d, " of a tensor of ",
            dimensions, dimensions == 1 ? " dimension" : " dimensions");
    for (const Axis axis : axes) {
      if (seen.contains(axis))
        fail(ErrorCode::InvalidArgument, "the layout ", layout.describe(dimensions), " names ",
             toString(axis), " twice");
      seen.insert(axis);
    }
  }
}

Box boxOf(const Shape& global, const Layout& layout, const MeshShape& mesh,
          const MeshPlace& place) {
  requireSound(layout, global.rank());
  Box box;
  for (int d = 0; d < global.rank(); ++d) {
    Range range{0, global[d]};
    for (const Axis axis : layout.dims[static_cast<size_t>(d)]) {
      const Range part = partOf(range.count(), mesh[axis], place[static_cast<size_t>(axis)]);
      range = {range.begin + part.begin, range.begin + part.end};
    }
    box.push_back(range);
  }
  return box;
}

Shape localShape(const Shape& global, const Layout& layout, const MeshShape& mesh,
                 const MeshPlace& place) {
  Shape shape = global;
  const Box box = boxOf(global, layout, mesh, place);
  for (int d = 0; d < global.rank(); ++d) shape[d] = box[static_cast<size_t>(d)].count();
  return shape;
}

}  // namespace tutti::parallel
