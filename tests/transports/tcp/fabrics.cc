#include "tests/transports/tcp/fabrics.h"

#include <sched.h>

#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/transports/process_fabric.h"

namespace tutti::tests {
namespace {

using transports::RingLayout;
using transports::tcp::TcpOptions;

class TcpThreads : public Fabric {
 public:
  TcpThreads(std::string name, TcpOptions options, std::string host = "127.0.0.1")
      : name_(std::move(name)), options_(std::move(options)), host_(std::move(host)) {}
  std::string name() const override { return name_; }

  std::vector<std::unique_ptr<Endpoint>> endpoints(int size, const RingLayout& layout) override {
    while (hubs_.size() < static_cast<size_t>(size)) hubs_.push_back(loopbackHub(host_));
    std::vector<std::unique_ptr<Endpoint>> all;
    for (int r = 0; r < size; ++r)
      all.push_back(transports::tcp::makeTcpEndpoint(hubs_[static_cast<size_t>(r)], r, size, layout,
                                                     options_));
    return all;
  }
  std::vector<std::string> run(const Scenario& scenario) override {
    auto all = endpoints(scenario.size, scenario.layout);
    connectAll(all);
    return driveThreads(scenario, std::move(all), [](int) {});
  }
  void settle(const std::vector<std::unique_ptr<Endpoint>>& all) override { settleAll(all); }

 protected:
  const std::string name_;
  const TcpOptions options_;
  const std::string host_;

 private:
  std::vector<std::shared_ptr<transports::tcp::TcpHub>> hubs_;  // by rank
};

// A hub has a thread, so none is there when ranks are forked.
class TcpProcesses final : public TcpThreads {
 public:
  using TcpThreads::TcpThreads;
  std::vector<std::string> run(const Scenario& scenario) override {
    return driveProcesses(scenario, [&](int rank) {
      return transports::tcp::makeTcpEndpoint(loopbackHub(host_), rank, scenario.size,
                                              scenario.layout, options_);
    });
  }
};

const TcpOptions kSealed{.encrypts = true};

}  // namespace

std::shared_ptr<transports::tcp::TcpHub> loopbackHub(const std::string& host) {
  return transports::tcp::makeHub({.place = wire::resolve(host, 0), .device = "lo"});
}

std::unique_ptr<Fabric> tcpThreads() {
  return std::make_unique<TcpThreads>("tcp_threads", TcpOptions{});
}
std::unique_ptr<Fabric> tcpProcesses() {
  return std::make_unique<TcpProcesses>("tcp_processes", TcpOptions{});
}
std::unique_ptr<Fabric> tcpStreams() {
  return std::make_unique<TcpThreads>("tcp_streams", TcpOptions{.streams = 3}, "::1");
}
std::unique_ptr<Fabric> tcpSealed() { return std::make_unique<TcpThreads>("tcp_sealed", kSealed); }
std::unique_ptr<Fabric> tcpSealedProcesses() {
  return std::make_unique<TcpProcesses>("tcp_sealed_processes", kSealed);
}

}  // namespace tutti::tests
