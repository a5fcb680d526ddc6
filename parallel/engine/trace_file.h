#pragma once

// The traces of all ranks as one file in Chrome's trace event format (JSON), which Perfetto
// (ui.perfetto.dev) and chrome://tracing show: a process for each rank, a lane for each of its
// threads and streams. Times are those of rank 0's clock (engine/clocks.h).

#include <string>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// Records from its making on.
class TraceFile {
 public:
  /// Compares the ranks' clocks. Collective; throws System on all ranks, naming the file, when it
  /// cannot be written.
  TraceFile(DeviceMesh& mesh, std::string path);

  /// Gathers what all ranks have recorded; rank 0 writes it, in the place of a file of that name.
  /// Collective, and throws as above: a disk may be full by now.
  void write() const;

 private:
  std::string ownEvents() const;

  DeviceMesh& mesh_;
  const std::string path_;
  Trace::Clock::time_point start_;  // rank 0's, by this rank's clock
};

}  // namespace tutti::parallel
