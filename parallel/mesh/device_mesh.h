#pragma once

// DeviceMesh: the ranks of a job arranged along named axes, and the communicators along them.
//
// It says where this rank's tensors are. On a GPU all that computes with them is enqueued on one
// stream, in the order in which the host asks for it, and the host waits where it takes a result.

#include <map>
#include <memory>
#include <vector>

#include "parallel/mesh/mesh_communicator.h"
#include "parallel/sharding/mesh_shape.h"
#include "parallel/tensor/arena.h"

namespace tutti::parallel {

/// By the axes of the ranks that perform them.
using Collectives = std::map<AxisSet, CollectiveCounters>;
/// What came to `before` until `now`, of axes along which anything did.
Collectives since(const Collectives& before, const Collectives& now);

class DeviceMesh {
 public:
  /// One rank, no communicator: nothing is ever sent.
  DeviceMesh() = default;
  /// The same with its tensors on `device`. Throws Unsupported where there is no such device.
  explicit DeviceMesh(Device device);
  /// All ranks of `world` along Data, tensors on its device. Owns the communicator.
  explicit DeviceMesh(Communicator world);
  /// Throws InvalidArgument when the shape has another number of ranks than `world`.
  DeviceMesh(Communicator world, const MeshShape& shape);
  /// One rank of a job that is not there, for a dry run: it knows its place, memory of its arenas
  /// and of allocate() is addresses without memory behind them, and collectives only count. `kind`
  /// is of the device that it would have: of a GPU what onDevice() copies takes memory, too.
  static DeviceMesh dry(const MeshShape& shape, int rank, DeviceKind kind = DeviceKind::Host);
  /// The same ranks along other axes, with communicators of their own; dry where this one is.
  /// Collective over all ranks. Throws InvalidArgument when the shape has another number of them,
  /// and as Communicator::subset() does.
  DeviceMesh arranged(const MeshShape& shape);

  bool dry() const { return dry_; }
  /// What arenas of this rank's tensors take memory from.
  Backing backing(std::string folder = {}) const {
    return {.dry = dry_, .folder = std::move(folder), .stream = stream_};
  }
  /// Of what is rarely computed with: this host's memory, which for a GPU is page-locked.
  Backing backingOfHost() const {
    return {.dry = dry_, .stream = stream_, .pinned = stream_ != nullptr};
  }
  /// Where they are; in a dry run, the host.
  Device device() const { return stream().device(); }
  /// On which kernels run; none on the host, where they are done when they return.
  StreamRef stream() const { return stream_ ? StreamRef(*stream_) : StreamRef(); }
  /// Waits for all that was enqueued there, and throws what of it failed.
  void finish() const;

  /// Elements of the host's memory to a contiguous tensor of this rank, or back, behind what is
  /// enqueued; they are there when it returns. Nothing in a dry run, and where both are one.
  void upload(const void* from, const Tensor& to) const;
  void download(const Tensor& from, void* to) const;
  /// Where kernels can use what the host has: the same, or on a GPU a copy in `memory`.
  Tensor onDevice(const Tensor& ofHost, Arena& memory) const;
  /// Where the host can use elements of a tensor, for upload() or after download(): the same, or
  /// for a GPU's `room`, which is made as large.
  Tensor onHost(const Tensor& tensor, std::vector<std::byte>& room) const;

  const MeshShape& shape() const { return shape_; }
  int extent(Axis axis) const { return shape_[axis]; }
  int index(Axis axis) const { return place_[static_cast<size_t>(axis)]; }  ///< of this rank
  int extent(AxisSet axes) const { return shape_.ranks(axes); }             ///< product over `axes`
  /// Of this rank among those that differ from it only along `axes`: its rank in communicator().
  int index(AxisSet axes) const;
  const MeshPlace& place() const { return place_; }
  /// Those of `axes` along which there are other ranks.
  AxisSet longAxes(AxisSet axes) const;
  int ranks() const { return shape_.ranks(); }
  int rank() const { return rankAt(shape_, place_); }  ///< in the whole job

  /// The ranks that differ from this one only along `axes`, in the order of their ranks in the job;
  /// null when there is no other such rank. Made when first asked for, which is then collective
  /// over those ranks, and kept; it has the options of the job's communicator. Throws as
  /// Communicator::subset() does.
  MeshCommunicator* communicator(AxisSet axes);

  /// Memory for tensors that collectives over `axes` read and write: addressable by the other ranks
  /// of this host where possible. With a single rank it is ordinary memory. Like communicator() it
  /// is collective over those ranks when it is the first to ask for them.
  Memory allocate(AxisSet axes, size_t bytes);
  /// The same for numbers of the host (isOfHost()); alone it need not be collective.
  Memory allocateOnHost(AxisSet axes, size_t bytes);

  /// What this rank's thread waits for and does; its communicators and those who use them say so.
  Trace& trace() const { return *trace_; }

  /// What the ranks along each set of axes did together, where they did anything.
  Collectives counters() const;
  /// Begins a list of the calls that this rank issues, over all communicators; it grows until the
  /// next one is begun.
  std::shared_ptr<const IssueOrder> recordCalls();

 private:
  MeshCommunicator make(AxisSet axes);
  void move(const CopyArgs& elements) const;

  MeshShape shape_;
  MeshPlace place_{};
  bool dry_ = false;
  DeviceKind kind_ = DeviceKind::Host;                        // also of a device that is not there
  std::shared_ptr<Stream> stream_;                            // null on the host
  std::unique_ptr<Trace> trace_ = std::make_unique<Trace>();  // stays where it is
  std::map<AxisSet, MeshCommunicator> groups_;  // by axes that are long: the job's by all of them
  std::shared_ptr<IssueOrder> calls_;           // null: they are not recorded
};

}  // namespace tutti::parallel
