#include "tests/transports/shm/fabrics.h"

#include "tests/transports/process_fabric.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {
namespace {

using transports::RingLayout;

class ShmThreads : public Fabric {
 public:
  std::string name() const override { return "shm_threads"; }
  std::vector<std::unique_ptr<Endpoint>> endpoints(int size, const RingLayout& layout) override {
    std::vector<std::unique_ptr<Endpoint>> all;
    for (int r = 0; r < size; ++r) all.push_back(transports::shm::makeShmEndpoint(r, size, layout));
    return all;
  }
  std::vector<std::string> run(const Scenario& scenario) override {
    auto all = endpoints(scenario.size, scenario.layout);
    connectAll(all);
    return driveThreads(scenario, std::move(all), [](int) {});
  }
  void settle(const std::vector<std::unique_ptr<Endpoint>>&) override {}
};

class ShmProcesses final : public ShmThreads {
 public:
  std::string name() const override { return "shm_processes"; }
  std::vector<std::string> run(const Scenario& scenario) override {
    return driveProcesses(scenario, [&](int rank) {
      return transports::shm::makeShmEndpoint(rank, scenario.size, scenario.layout);
    });
  }
};

}  // namespace

std::unique_ptr<Fabric> shmThreads() { return std::make_unique<ShmThreads>(); }
std::unique_ptr<Fabric> shmProcesses() { return std::make_unique<ShmProcesses>(); }

}  // namespace tutti::tests
