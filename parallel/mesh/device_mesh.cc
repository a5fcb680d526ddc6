#include "parallel/mesh/device_mesh.h"

#include <cstring>
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

std::shared_ptr<Stream> streamOn(Device device) {
  return device.kind == DeviceKind::Host ? nullptr : std::make_shared<Stream>(device);
}

}  // namespace

Collectives since(const Collectives& before, const Collectives& now) {
  Collectives result;
  for (const auto& [axes, count] : now) {
    const auto found = before.find(axes);
    const CollectiveCounters step = found == before.end() ? count : count.since(found->second);
    if (step != CollectiveCounters{}) result[axes] = step;
  }
  return result;
}

DeviceMesh::DeviceMesh(Device device) : kind_(device.kind), stream_(streamOn(device)) {}

DeviceMesh::DeviceMesh(Communicator world) : shape_(MeshShape::along(Axis::Data, world.size())) {
  place_ = placeOf(shape_, world.rank());
  kind_ = world.device().kind;
  stream_ = streamOn(world.device());
  groups_.emplace(longAxes(AxisSet::all()), MeshCommunicator(std::move(world), stream_));
}

DeviceMesh::DeviceMesh(Communicator world, const MeshShape& shape) : shape_(shape) {
  const int ranks = shape.ranks();
  require(ranks == world.size(), "a mesh of ", shape.describe(), " has ", ranks,
          ranks == 1 ? " rank" : " ranks", ", and the job has ", world.size());
  place_ = placeOf(shape, world.rank());
  kind_ = world.device().kind;
  stream_ = streamOn(world.device());
  groups_.emplace(longAxes(AxisSet::all()), MeshCommunicator(std::move(world), stream_));
}

DeviceMesh DeviceMesh::dry(const MeshShape& shape, int rank, DeviceKind kind) {
  require(rank >= 0 && rank < shape.ranks(), "there is no rank ", rank, " in ", shape.describe());
  DeviceMesh mesh;
  mesh.shape_ = shape;
  mesh.place_ = placeOf(shape, rank);
  mesh.dry_ = true;
  mesh.kind_ = kind;
  return mesh;
}

DeviceMesh DeviceMesh::arranged(const MeshShape& shape) {
  require(shape.ranks() == ranks(), "a mesh of ", shape_.describe(), " cannot be arranged as ",
          shape.describe());
  DeviceMesh mesh;
  mesh.shape_ = shape;
  mesh.place_ = placeOf(shape, rank());
  mesh.dry_ = dry_;
  mesh.kind_ = kind_;
  mesh.stream_ = stream_;
  if (!dry_ && ranks() > 1)
    mesh.groups_.emplace(mesh.longAxes(AxisSet::all()), make(AxisSet::all()));
  return mesh;
}

AxisSet DeviceMesh::longAxes(AxisSet axes) const {
  for (int i = 0; i < kAxisCount; ++i)
    if (extent(static_cast<Axis>(i)) == 1) axes.remove(static_cast<Axis>(i));
  return axes;
}

int DeviceMesh::index(AxisSet axes) const {
  int result = 0;
  for (int i = 0; i < kAxisCount; ++i)
    if (const auto axis = static_cast<Axis>(i); axes.contains(axis))
      result = result * extent(axis) + index(axis);
  return result;
}

MeshCommunicator DeviceMesh::make(AxisSet axes) {
  if (dry_) return MeshCommunicator(index(axes), extent(axes));
  return groups_.at(longAxes(AxisSet::all())).subset(ranksAlong(shape_, rank(), axes));
}

MeshCommunicator* DeviceMesh::communicator(AxisSet axes) {
  const AxisSet along = longAxes(axes);
  if (along.empty()) return nullptr;
  auto found = groups_.find(along);
  if (found == groups_.end()) {
    found = groups_.emplace(along, make(along)).first;
    found->second.record(calls_, along);
  }
  found->second.observe(*trace_);
  return &found->second;
}

void DeviceMesh::finish() const {
  if (stream_) stream_->synchronize();
}

/// Of a tensor, to the host or from it. The host's memory is not page-locked: a copy of it waits
/// for what is before it on the stream, and holds CUDA's lock meanwhile
/// (docs/explanation/training.md). So that has ended before.
void DeviceMesh::move(const CopyArgs& elements) const {
  if (dry_ || elements.bytes == 0 || elements.to == elements.from) return;
  if (!stream_) {
    std::memcpy(elements.to, elements.from, elements.bytes);
    return;
  }
  finish();
  copy(elements, *stream_);
  finish();
}

void DeviceMesh::upload(const void* from, const Tensor& to) const {
  ensure(to.contiguous(), to, " is not contiguous");
  move({.to = to.data, .from = from, .bytes = to.bytes()});
}

void DeviceMesh::download(const Tensor& from, void* to) const {
  ensure(from.contiguous(), from, " is not contiguous");
  move({.to = to, .from = from.data, .bytes = from.bytes()});
}

Tensor DeviceMesh::onDevice(const Tensor& ofHost, Arena& memory) const {
  if (kind_ == DeviceKind::Host) return ofHost;
  const Tensor result = memory.allocate(ofHost.type, ofHost.shape);
  upload(ofHost.data, result);
  return result;
}

Tensor DeviceMesh::onHost(const Tensor& tensor, std::vector<std::byte>& room) const {
  if (!stream_) return tensor;
  room.resize(tensor.bytes());
  return Tensor(room.data(), tensor.type, tensor.shape);
}

Memory DeviceMesh::allocate(AxisSet axes, size_t bytes) {
  if (bytes == 0) return {};
  if (MeshCommunicator* group = communicator(axes)) return group->allocate(bytes);
  if (stream_) return allocateOn(device(), bytes);
  return dry_ ? dryMemory(bytes) : allocatePrivate(bytes);
}

Memory DeviceMesh::allocateOnHost(AxisSet axes, size_t bytes) {
  return stream_ && bytes > 0 ? allocatePrivate(bytes) : allocate(axes, bytes);
}

std::shared_ptr<const IssueOrder> DeviceMesh::recordCalls() {
  calls_ = std::make_shared<IssueOrder>();
  for (auto& [axes, group] : groups_) group.record(calls_, axes);
  return calls_;
}

Collectives DeviceMesh::counters() const {
  Collectives all;
  for (const auto& [axes, group] : groups_)
    if (group.counters() != CollectiveCounters{}) all.emplace(axes, group.counters());
  return all;
}

}  // namespace tutti::parallel
