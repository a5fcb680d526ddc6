#include "tests/transports/joined/fabrics.h"

#include "tests/transports/sim/fabrics.h"
#include "transports/joined/endpoint.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {
namespace {

class JoinedThreads final : public Fabric {
 public:
  std::string name() const override { return "joined_threads"; }

  std::vector<std::unique_ptr<Endpoint>> endpoints(int size,
                                                   const transports::RingLayout& layout) override {
    auto far = remote_->endpoints(size, layout);
    std::vector<std::unique_ptr<Endpoint>> all;
    for (int rank = 0; rank < size; ++rank) {
      const int first = rank / 2 * 2, neighbours = std::min(2, size - first);
      std::vector<int> numbers(static_cast<size_t>(size), transports::joined::kRemote);
      for (int i = 0; i < neighbours; ++i) numbers[static_cast<size_t>(first + i)] = i;
      all.push_back(transports::joined::makeJoinedEndpoint(
          transports::shm::makeShmEndpoint(rank - first, neighbours, layout), std::move(numbers),
          std::move(far[static_cast<size_t>(rank)])));
    }
    return all;
  }

  std::vector<std::string> run(const Scenario& scenario) override {
    auto all = endpoints(scenario.size, scenario.layout);
    connectAll(all);
    return driveThreads(scenario, std::move(all), [&](int rank) { remote_->kill(rank); });
  }
  void settle(const std::vector<std::unique_ptr<Endpoint>>& all) override { remote_->settle(all); }
  std::string describe() const override { return remote_->describe(); }

 private:
  const std::unique_ptr<SimFabric> remote_ = makeSimThreads();
};

}  // namespace

std::unique_ptr<Fabric> joinedThreads() { return std::make_unique<JoinedThreads>(); }

}  // namespace tutti::tests
