#pragma once

// Runs a test's body on every rank of a mesh, each in a thread of this process.

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

inline void onMesh(const MeshShape& shape, const std::function<void(DeviceMesh&)>& body) {
  auto communicators = Communicator::createLocal(shape.ranks());
  std::vector<std::thread> threads;
  for (Communicator& communicator : communicators)
    threads.emplace_back([&] {
      try {
        DeviceMesh mesh(std::move(communicator), shape);
        body(mesh);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::parallel
