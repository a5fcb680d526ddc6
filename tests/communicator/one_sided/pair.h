#pragma once

// Two ranks of one process by hand, so that a test may look into them, and do what no caller can.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include <tutti/tutti.h>

#include "src/bootstrap/control_plane.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/state.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {

/// What ranks of one process are made of.
inline std::vector<std::shared_ptr<Communicator::Impl>> makeParts(
    int size, const CommunicatorOptions& options) {
  const auto planes = bootstrap::makeLocalControlPlanes(size);
  const auto shared = std::make_shared<communicator::SharedWindows>();
  std::vector<int> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(rank);
  std::vector<std::shared_ptr<Communicator::Impl>> parts;
  std::vector<std::unique_ptr<transports::Endpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank) {
    parts.push_back(std::make_shared<Communicator::Impl>(
        communicator::Membership(
            std::make_shared<communicator::World>(1, planes[static_cast<size_t>(rank)], shared),
            members, rank, 1),
        communicator::Settings::from(options)));
    endpoints.push_back(transports::shm::makeShmEndpoint(
        rank, size, transports::shm::chooseLayout(size, communicator::kChannels)));
  }
  Communicator::Impl::connectLocal(parts, std::move(endpoints));
  return parts;
}

/// They have one window, and have sent each other a signal.
class OneSidedPair {
 public:
  using Impl = Communicator::Impl;
  static constexpr int kSignals = 2;

  /// The buffer is rank 0's; rank 1 has none.
  OneSidedPair(void* buffer, size_t bytes) : impls_(makeParts(2, {.signals = kSignals})) {
    for (const auto& impl : impls_) ranks_.emplace_back(impl);
    windows_.push_back(ranks_[0].window({buffer, bytes}));
    windows_.push_back(ranks_[1].window({}));
    for (Communicator& rank : ranks_) rank.signal({.peer = 1 - rank.rank()});
    for (Communicator& rank : ranks_) await(rank, 0);
  }

  Communicator& rank(size_t r) { return ranks_[r]; }
  Impl& parts(size_t r) { return *impls_[r]; }
  void closeWindows() { windows_.clear(); }
  void lastLeaves() {
    windows_.pop_back();
    ranks_.pop_back();
    impls_.pop_back();
  }
  static void await(Communicator& rank, int signal) {
    const AwaitedSignals one{.peer = 1 - rank.rank(), .signal = signal};
    rank.waitSignals({.signals = {&one, 1}});
  }

 private:
  std::vector<std::shared_ptr<Impl>> impls_;
  std::vector<Communicator> ranks_;
  std::vector<Window> windows_;
};

}  // namespace tutti::tests
