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

}  // namespace

DeviceMesh::DeviceMesh(Communicator world) : world_(std::move(world)) {
  extents_[static_cast<size_t>(Axis::Data)] = world_->size();
  indices_[static_cast<size_t>(Axis::Data)] = world_->rank();
}

int DeviceMesh::extent(AxisSet axes) const {
  int product = 1;
  for (int i = 0; i < kAxisCount; ++i)
    if (axes.contains(static_cast<Axis>(i))) product *= extents_[static_cast<size_t>(i)];
  return product;
}

int DeviceMesh::ranks() const { return world_ ? world_->size() : 1; }
int DeviceMesh::rank() const { return world_ ? world_->rank() : 0; }

Communicator* DeviceMesh::communicator(AxisSet axes) {
  if (extent(axes) == 1) return nullptr;
  ensure(extent(axes) == ranks(), "the axes ", axes.describe(), " span ", extent(axes), " of ",
         ranks(), " ranks, and only one axis can be split");
  return &*world_;
}

Memory DeviceMesh::allocate(AxisSet axes, size_t bytes) {
  if (bytes == 0) return {};
  Communicator* group = communicator(axes);
  return group == nullptr ? allocatePrivate(bytes) : group->allocate(bytes);
}

}  // namespace tutti::parallel
