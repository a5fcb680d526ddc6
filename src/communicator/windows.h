#pragma once

// Windows: memory of one rank that the other ranks of its host have mapped. A window is announced
// when it is made, mapped by the peers' monitor threads, and used once all of them have
// acknowledged it, so that all ranks always agree on whether an operation may run on mapped
// buffers. Only windows are ever addressed by other ranks, also where ranks are threads of one
// process: a window stays mapped for as long as anybody works on it, and nothing else would.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <tutti/device.h>

#include "src/base/process.h"
#include "src/bootstrap/control_plane.h"
#include "src/executor/host/host_operation.h"
#include "transports/shm/segment.h"

namespace tutti::communicator {

/// Where ranks that share a process find each other's segments, which they need not map again.
class SharedWindows {
 public:
  void add(int rank, uint64_t id, std::weak_ptr<transports::shm::Segment> segment);
  void remove(int rank, uint64_t id);
  std::shared_ptr<transports::shm::Segment> find(int rank, uint64_t id) const;  ///< or null

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<int, uint64_t>, std::weak_ptr<transports::shm::Segment>> segments_;
};

/// The windows of one rank and those it has mapped, in the rank numbers of the job.
class WindowTable final : public bootstrap::ControlListener {
 public:
  static constexpr uint64_t kChannel = 0;
  /// `shared` by all ranks that live in this process; null: every rank is a process.
  WindowTable(bootstrap::ControlPlane& control, std::shared_ptr<SharedWindows> shared);
  ~WindowTable() override;

  /// New window memory, zeroed. Waits a moment for the peers to map it; with one that cannot, it is
  /// ordinary memory. Throws OutOfMemory when memory or a descriptor cannot be had.
  Memory allocate(uint64_t bytes, const std::shared_ptr<void>& keepAlive);
  /// Makes a window of a segment, or once more the one that it is. The result keeps both.
  Memory share(const std::shared_ptr<transports::shm::Segment>& segment, uint64_t bytes,
               const std::shared_ptr<void>& keepAlive);

  executor::WindowPlace locate(const void* data, uint64_t bytes) const;
  /// Null when the peer has given it back. Throws Internal, naming the peer, if so many bytes are
  /// not there.
  std::shared_ptr<std::byte> resolve(int peer, executor::WindowPlace place,
                                     uint64_t bytes = 0) const;

  void onMessage(int from, bootstrap::ControlMessage message) override;
  void onPeerLost(int peer, const std::string& how) override;
  void onTick() override {}

 private:
  enum class Message : uint32_t { Announce, Acknowledge, Refuse, Close };
  struct Own {
    uint64_t id;
    std::shared_ptr<transports::shm::Segment> segment;
    std::set<int> missing;  // ranks that have not answered
    std::set<int> refused;  // ranks that could not map it
    int shares = 0;         // until it is given back
    bool usable() const { return missing.empty() && refused.empty(); }
  };
  bool neighbour(int peer) const;  // another rank of this host
  void announce(const std::byte* data);
  void release(void* data);
  void tell(int peer, Message type, uint64_t id, uint64_t bytes, base::FileDescriptor fd = {});
  void answer(int from, uint64_t id, bool mapped);
  void map(int from, uint64_t id, uint64_t bytes, std::vector<base::FileDescriptor> descriptors);

  const base::ProcessGuard guard_;
  bootstrap::ControlPlane& control_;
  const std::shared_ptr<SharedWindows> shared_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> gone_;  // ranks that died or left
  uint64_t lastId_ = 0;
  std::map<const std::byte*, Own> own_;  // by first byte
  std::map<std::pair<int, uint64_t>, std::shared_ptr<transports::shm::Segment>>
      peers_;  // by rank and id
};

}  // namespace tutti::communicator
