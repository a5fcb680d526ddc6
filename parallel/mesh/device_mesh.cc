#include "parallel/mesh/device_mesh.h"

#include <new>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

Memory allocatePrivate(size_t bytes) {
  constexpr std::align_val_t alignment{64};
  void* memory = ::operator new(bytes, alignment, std::nothrow);
  if (memory == nullptr) fail(ErrorCode::OutOfMemory, bytes, " bytes for parameters");
  return Memory(memory, bytes,
                std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p, alignment); }));
}

MeshShape alongData(int ranks) {
  MeshShape shape;
  shape[Axis::Data] = ranks;
  return shape;
}

}  // namespace

DeviceMesh::DeviceMesh(Communicator world) : world_(std::move(world)) {
  shape_ = alongData(world_->size());
  place_ = placeOf(shape_, world_->rank());
}

DeviceMesh::DeviceMesh(Communicator world, const MeshShape& shape)
    : shape_(shape), world_(std::move(world)) {
  const int ranks = shape.ranks();
  require(ranks == world_->size(), "a mesh of ", shape.describe(), " has ", ranks,
          ranks == 1 ? " rank" : " ranks", ", and the job has ", world_->size());
  place_ = placeOf(shape, world_->rank());
}

AxisSet DeviceMesh::longAxes(AxisSet axes) const {
  for (int i = 0; i < kAxisCount; ++i)
    if (extent(static_cast<Axis>(i)) == 1) axes.remove(static_cast<Axis>(i));
  return axes;
}

std::vector<int> DeviceMesh::ranksAlong(AxisSet axes) const {
  std::vector<int> members;
  for (int rank = 0; rank < ranks(); ++rank) {
    MeshPlace place = placeOf(shape_, rank);
    for (int i = 0; i < kAxisCount; ++i)
      if (axes.contains(static_cast<Axis>(i)))
        place[static_cast<size_t>(i)] = index(static_cast<Axis>(i));
    if (place == place_) members.push_back(rank);
  }
  return members;
}

int DeviceMesh::index(AxisSet axes) const {
  int result = 0;
  for (int i = 0; i < kAxisCount; ++i)
    if (const auto axis = static_cast<Axis>(i); axes.contains(axis))
      result = result * extent(axis) + index(axis);
  return result;
}

Communicator* DeviceMesh::communicator(AxisSet axes) {
  const AxisSet along = longAxes(axes);
  if (along.empty()) return nullptr;
  if (shape_.ranks(along) == ranks()) return &*world_;
  const auto found = groups_.find(along);
  if (found != groups_.end()) return &found->second;
  return &groups_.emplace(along, world_->subset(ranksAlong(along))).first->second;
}

Memory DeviceMesh::allocate(AxisSet axes, size_t bytes) {
  if (bytes == 0) return {};
  Communicator* group = communicator(axes);
  return group == nullptr ? allocatePrivate(bytes) : group->allocate(bytes);
}

}  // namespace tutti::parallel
