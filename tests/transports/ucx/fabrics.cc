#include "tests/transports/ucx/fabrics.h"

#include <sched.h>

#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/transports/process_fabric.h"

namespace tutti::tests {
namespace {

using transports::RingLayout;
using transports::ucx::WorkerOptions;

class UcxThreads : public Fabric {
 public:
  UcxThreads(std::string name, WorkerOptions options)
      : name_(std::move(name)), options_(std::move(options)) {}
  std::string name() const override { return name_; }

  // The workers are kept: to make one takes milliseconds.
  std::vector<std::unique_ptr<Endpoint>> endpoints(int size, const RingLayout& layout) override {
    while (workers_.size() < static_cast<size_t>(size))
      workers_.push_back(transports::ucx::makeWorker(options_));
    std::vector<std::unique_ptr<Endpoint>> all;
    for (int r = 0; r < size; ++r)
      all.push_back(
          transports::ucx::makeUcxEndpoint(workers_[static_cast<size_t>(r)], r, size, layout));
    return all;
  }
  std::vector<std::string> run(const Scenario& scenario) override {
    auto all = endpoints(scenario.size, scenario.layout);
    connectAll(all);
    return driveThreads(scenario, std::move(all), [](int) {});
  }
  void settle(const std::vector<std::unique_ptr<Endpoint>>& all) override { settleAll(all); }

 protected:
  const WorkerOptions& options() const { return options_; }

 private:
  const std::string name_;
  const WorkerOptions options_;
  std::vector<std::shared_ptr<transports::ucx::Worker>> workers_;  // by rank
};

// UCX has a thread of its own while there is a worker, so none is there when ranks are forked.
class UcxProcesses final : public UcxThreads {
 public:
  using UcxThreads::UcxThreads;
  std::vector<std::string> run(const Scenario& scenario) override {
    return driveProcesses(scenario, [&](int rank) {
      return transports::ucx::makeUcxEndpoint(transports::ucx::makeWorker(options()), rank,
                                              scenario.size, scenario.layout);
    });
  }
};

}  // namespace

// Large messages are fetched, as over RDMA.
WorkerOptions overTcp() { return {.devices = "lo", .tls = "tcp,self", .rendezvous = "16384"}; }

std::unique_ptr<Fabric> ucxThreads() {
  return std::make_unique<UcxThreads>("ucx_threads", overTcp());
}
std::unique_ptr<Fabric> ucxEverything() {
  return std::make_unique<UcxThreads>("ucx_everything", WorkerOptions{});
}
std::unique_ptr<Fabric> ucxProcesses() {
  return std::make_unique<UcxProcesses>("ucx_processes", overTcp());
}
std::unique_ptr<Fabric> ucxEverythingProcesses() {
  return std::make_unique<UcxProcesses>("ucx_everything_processes", WorkerOptions{});
}

}  // namespace tutti::tests
