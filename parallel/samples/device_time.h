#pragma once

// How long a rank's device takes. On a GPU a call returns when its work is enqueued; what is timed
// ends when the rank's stream has done it, and begins when the stream has nothing else to do.

#include <chrono>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// Until what `call` asks for is done, in seconds.
template <class Call>
std::chrono::duration<double> timeOnDevice(const DeviceMesh& mesh, const Call& call) {
  mesh.finish();
  const auto begin = std::chrono::steady_clock::now();
  call();
  mesh.finish();
  return std::chrono::steady_clock::now() - begin;
}

}  // namespace tutti::parallel
