#pragma once

// BackgroundSave: a checkpoint that is written while the training goes on. What is saved is copied
// to the host's memory first, so the training may change it at once; a thread then does all that a
// save does, with a communicator of its own, because the mesh's are the training's:
//
//   training   |step|copy|step|step|step|step|copy|step|
//   thread              |files, manifest, name|    |files ...
//
// What goes wrong in the thread goes wrong on all ranks alike, and is thrown where all of them wait
// for it: in await().

#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

class BackgroundSave {
 public:
  explicit BackgroundSave(DeviceMesh& mesh)
      : mesh_(mesh), copies_("checkpoint in memory", {.dry = mesh.dry()}) {}
  /// Waits; a failure that nobody has asked for is lost.
  ~BackgroundSave() { join(); }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Elements of `tensor` on the host, which stay as they are until the next await().
  Tensor copy(const Tensor& tensor);
  /// Calls `write` in a thread, with all ranks of the mesh (null for one). After await(). The first
  /// time it is collective, as the mesh's communicators are.
  void start(std::function<void(MeshCommunicator*)> write);
  /// Waits for what was started, and throws what that threw; gives the copies back.
  void await();

  /// The most that copies have needed.
  size_t bytes() const { return copies_.peakBytes(); }

 private:
  MeshCommunicator* ranks();
  void join();

  DeviceMesh& mesh_;
  Arena copies_;
  std::optional<MeshCommunicator> ranks_;
  std::thread thread_;
  Trace::Clock::time_point began_, ended_;  // of the thread, as what follows
  std::exception_ptr failure_;              // of the thread, once it was joined
};

}  // namespace tutti::parallel
