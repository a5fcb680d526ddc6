#include "src/communicator/world.h"

#include <cstring>
#include <utility>

#include "src/bootstrap/rendezvous.h"

namespace tutti::communicator {

uint64_t numberOfJob(const UniqueId& id) {
  const wire::JobId job = bootstrap::decode(id).credentials.job;
  uint64_t number = 0;
  static_assert(sizeof number <= sizeof job);
  std::memcpy(&number, job.data(), sizeof number);
  return number;
}

World::World(uint64_t jobNumber, std::shared_ptr<bootstrap::ControlPlane> plane,
             std::shared_ptr<SharedWindows> shared)
    : job(jobNumber),
      control(std::move(plane)),
      windows(std::make_unique<WindowTable>(*control, shared)) {
  if (shared) return;
  atExit_.emplace(
      [this](const base::Deadline& deadline) {
        control->leave();
        control->awaitSent(deadline);
      },
      base::AtExit::Phase::Last);
}

World::~World() {
  atExit_.reset();
  if (guard.inForkedChild()) {
    base::abandon(std::move(windows));
    return;
  }
  control->leave();
  windows.reset();
}

std::shared_ptr<Network> World::network(const std::string& transport, const LocalRank& rank,
                                        const Settings& settings) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Network>& network = networks_[transport];
  if (!network) network = makeNetwork(transport, rank, settings, *control);
  return network;
}

}  // namespace tutti::communicator
