#pragma once

// DeviceMesh: the ranks of a job arranged along named axes, and the communicators along them. The
// product of the extents is the number of ranks; Tensor is the innermost axis, so that its ranks
// are nearest neighbours. Data is the one axis that may be longer than 1 so far; any other is
// refused by name.

#include <array>
#include <optional>

#include <tutti/communicator.h>
#include "parallel/tensor/layout.h"

namespace tutti::parallel {

class DeviceMesh {
 public:
  /// One rank, no communicator: nothing is ever sent.
  DeviceMesh() = default;
  /// All ranks of `world` along Data. Owns the communicator.
  explicit DeviceMesh(Communicator world);

  int extent(Axis axis) const { return extents_[static_cast<size_t>(axis)]; }
  int index(Axis axis) const { return indices_[static_cast<size_t>(axis)]; }  ///< of this rank
  int extent(AxisSet axes) const;  ///< product over `axes`
  int ranks() const;
  int rank() const;  ///< in the whole job

  /// The ranks that differ from this one only along `axes`, ordered along them; null when there is
  /// no other such rank.
  Communicator* communicator(AxisSet axes);

  /// Memory for tensors that collectives over `axes` read and write: addressable by the other ranks
  /// of this host where possible. With a single rank it is ordinary memory.
  Memory allocate(AxisSet axes, size_t bytes);

 private:
  std::array<int, kAxisCount> extents_ = {1, 1, 1, 1, 1, 1};
  std::array<int, kAxisCount> indices_ = {};
  std::optional<Communicator> world_;
};

}  // namespace tutti::parallel
