#pragma once

// The traces of all ranks as one file in Chrome's trace event format (JSON), which Perfetto
// (ui.perfetto.dev) and chrome://tracing show: a process for each rank, a lane for each of its
// threads. Times are those of rank 0's clock.

#include <string>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// Records from its making on.
class TraceFile {
 public:
  /// Compares the ranks' clocks: the processes of one boot of one machine have one, others leave
  /// several barriers at the same time, more or less, of which the median counts. Collective.
  explicit TraceFile(DeviceMesh& mesh);

  /// Gathers what all ranks have recorded; rank 0 writes it. Collective; throws System on all
  /// ranks, naming the file, when it cannot be written.
  void write(const std::string& path) const;

 private:
  std::string ownEvents() const;

  DeviceMesh& mesh_;
  Trace::Clock::time_point start_;  // rank 0's, by this rank's clock
};

}  // namespace tutti::parallel
