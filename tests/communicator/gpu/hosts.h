#pragma once

// Ranks of one process on GPUs that are as on several hosts.

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tutti/log.h>
#include "src/base/check.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/local.h"
#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {

/// One rank's end of a control plane that says which rank is on which host.
class PlacedPlane final : public bootstrap::ControlPlane {
 public:
  PlacedPlane(std::shared_ptr<bootstrap::ControlPlane> inner, const std::vector<int>& hosts)
      : inner_(std::move(inner)) {
    for (int r = 0; r < inner_->size(); ++r) {
      peers_.push_back(inner_->peer(r));
      peers_.back().bootId += base::message("/", hosts[r]);
    }
  }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const bootstrap::PeerInfo& peer(int rank) const override { return peers_[rank]; }
  void send(int to, bootstrap::ControlMessage message) override {
    inner_->send(to, std::move(message));
  }
  void listen(uint64_t channel, bootstrap::ControlListener* listener) override {
    inner_->listen(channel, listener);
  }
  void ignore(uint64_t channel) override { inner_->ignore(channel); }
  bool runs(int rank) const override { return inner_->runs(rank); }
  void leave() override { inner_->leave(); }
  void awaitSent(const base::Deadline& deadline) override { inner_->awaitSent(deadline); }

 private:
  const std::shared_ptr<bootstrap::ControlPlane> inner_;
  std::vector<bootstrap::PeerInfo> peers_;
};

/// Rank r on device r modulo as many as there are, as on these hosts.
inline std::vector<Communicator> makeRanksOn(const std::vector<int>& hosts,
                                             CommunicatorOptions options = {}) {
  const auto size = static_cast<int>(hosts.size());
  std::vector<std::shared_ptr<bootstrap::ControlPlane>> planes;
  for (auto& plane : bootstrap::makeLocalControlPlanes(size))
    planes.push_back(std::make_shared<PlacedPlane>(std::move(plane), hosts));
  for (int r = 0; r < size; ++r) options.devices.push_back(gpu(r % deviceCount(DeviceKind::Cuda)));
  const topology::Topology topology{.ranks = size, .hostOf = hosts};
  const auto settings = communicator::Settings::from(options);
  const std::string network = communicator::networkTransport(settings, *planes[0]);
  return communicator::makeLocal(
      size, options,
      [&](int rank) {
        return communicator::makeEndpoint(rank, topology, settings.transport,
                                          communicator::makeLocalNetwork(network, settings));
      },
      std::move(planes));
}

/// What ranks say of their way to other hosts, while it lives.
class Ways {
 public:
  Ways() {
    setLogSink([this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (line.find("from GPU to GPU") != line.npos) lines_.emplace_back(line);
    });
  }
  ~Ways() { setLogSink({}); }
  /// Ranks that have said that they reach so many of so many others.
  ptrdiff_t count(int direct, int far) {
    const std::lock_guard lock(mutex_);
    const std::string words =
        base::message(": with ", direct, " of ", far, " ranks on other hosts");
    return std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(words) != line.npos; });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace tutti::tests
