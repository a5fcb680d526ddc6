#include "tests/transports/sim/fabrics.h"

#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/support/sim/endpoint.h"

namespace tutti::tests {
namespace {

using transports::RingLayout;
using transports::sim::Drive;
using transports::sim::SimNetwork;
using transports::sim::SimOptions;

// Every packet has a chance of a bad fate, so that the protocol is at work in every test.
SimOptions badWire(Drive drive) {
  SimOptions options;
  options.seed = testSeed();
  options.drive = drive;
  options.minLatencyNs = 500;
  options.maxLatencyNs = 3000;
  options.loss = 0.02;
  options.duplicate = 0.02;
  options.reorder = 0.05;
  return options;
}

class Sim final : public SimFabric {
 public:
  Sim(std::string name, const SimOptions& options) : name_(std::move(name)), options_(options) {}
  std::string name() const override { return name_; }

  std::vector<std::unique_ptr<Endpoint>> endpoints(int size, const RingLayout& layout) override {
    network_ = std::make_shared<SimNetwork>(size, layout, options_);
    std::vector<std::unique_ptr<Endpoint>> all;
    for (int r = 0; r < size; ++r) all.push_back(transports::sim::makeSimEndpoint(network_, r));
    return all;
  }

  std::vector<std::string> run(const Scenario& scenario) override {
    auto all = endpoints(scenario.size, scenario.layout);
    connectAll(all);
    if (options_.drive == Drive::Virtual) return driveVirtual(*network_, scenario, all);
    return driveThreads(scenario, std::move(all), [&](int rank) { kill(rank); });
  }

  void settle(const std::vector<std::unique_ptr<Endpoint>>& all) override {
    if (options_.drive == Drive::Virtual) {
      while (network_->advance()) {
      }
      return;
    }
    const auto deadline = base::Deadline::after(std::chrono::seconds(20));
    do {
      for (const auto& endpoint : all)
        if (endpoint) endpoint->progress();
    } while (network_->pendingEvents() > 0 && !deadline.passed());
  }

  void kill(int rank) override { network_->kill(rank); }

  std::string describe() const override { return network_ ? network_->describe() : ""; }

 private:
  const std::string name_;
  const SimOptions options_;
  std::shared_ptr<SimNetwork> network_;
};

}  // namespace

std::vector<std::string> driveVirtual(SimNetwork& network, const Scenario& scenario,
                                      std::vector<std::unique_ptr<Endpoint>>& endpoints) {
  const auto deadline = base::Deadline::after(scenario.within);
  std::vector<Actors> actors;
  for (size_t r = 0; r < endpoints.size(); ++r)
    actors.push_back(scenario.actors(static_cast<int>(r)));
  std::vector<std::string> problems(endpoints.size());
  // Polls of a rank whose actors only count polls change nothing, so a standstill is one that
  // lasts.
  int standing = 0;
  size_t busy = endpoints.size();
  while (busy > 0) {
    bool moved = false;
    busy = 0;
    for (size_t r = 0; r < endpoints.size(); ++r) {
      if (actors[r].empty()) continue;
      try {
        std::erase_if(actors[r], [&](const auto& actor) {
          const Poll poll = actor->poll(*endpoints[r]);
          moved |= poll != Poll::Idle;
          return poll == Poll::Done;
        });
        moved |= endpoints[r]->progress();
      } catch (const Departure&) {
        network.kill(static_cast<int>(r));
        actors[r].clear();
        endpoints[r].reset();
        moved = true;
      } catch (const std::exception& e) {
        problems[r] = e.what();
        actors[r].clear();
      }
      busy += !actors[r].empty();
    }
    if (network.advance()) moved = true;
    standing = moved ? 0 : standing + 1;
    if (standing < 10'000 && !deadline.passed()) continue;
    for (size_t r = 0; r < endpoints.size(); ++r)
      if (!actors[r].empty()) problems[r] = "stands still while " + actors[r].front()->describe();
    break;
  }
  return problems;
}

std::unique_ptr<Fabric> simVirtual() {
  return std::make_unique<Sim>("sim_virtual", badWire(Drive::Virtual));
}
std::unique_ptr<SimFabric> makeSimThreads() {
  return std::make_unique<Sim>("sim_threads", badWire(Drive::Threads));
}
std::unique_ptr<Fabric> simThreads() { return makeSimThreads(); }
std::unique_ptr<Fabric> simWrapped() {
  SimOptions options = badWire(Drive::Virtual);
  options.firstNumber = UINT32_MAX - 20;
  return std::make_unique<Sim>("sim_wrapped", options);
}

}  // namespace tutti::tests
