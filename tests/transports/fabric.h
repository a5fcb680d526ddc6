#pragma once

// The ways to run a conformance scenario: each transport, with threads, processes, or one thread on
// virtual time. Nothing runs longer than the scenario's limit.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/transports/actors.h"
#include "transports/connection.h"

namespace tutti::tests {

struct Scenario {
  int size = 2;
  transports::RingLayout layout{.channels = 1, .slotCount = 4, .slotBytes = 4096};
  std::function<Actors(int rank)> actors;
  std::chrono::seconds within{100};
  /// A rank that vanishes. A transport that notices says so, once, and serves the others.
  std::optional<int> departs = std::nullopt;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string name() const = 0;
  /// Endpoints in this process, not connected. For the simulated network all of one call are in
  /// one network.
  virtual std::vector<std::unique_ptr<Endpoint>> endpoints(
      int size, const transports::RingLayout& layout) = 0;
  /// What went wrong, one entry a rank, empty when nothing did. A rank that vanished on purpose
  /// did nothing wrong.
  virtual std::vector<std::string> run(const Scenario& scenario) = 0;
  /// Lets happen what the transport does by itself. For endpoints of this process.
  virtual void settle(const std::vector<std::unique_ptr<Endpoint>>& endpoints) = 0;
  /// Appended to messages: seeds and the like.
  virtual std::string describe() const { return {}; }
};

using FabricFactory = std::unique_ptr<Fabric> (*)();

/// Connects endpoints of this process, all with all.
void connectAll(std::vector<std::unique_ptr<Endpoint>>& endpoints);

/// Lets endpoints of this process whose transport works by itself exchange what they have, until
/// nothing is left.
void settleAll(const std::vector<std::unique_ptr<Endpoint>>& endpoints);

/// Runs one rank's actors to their end, and until all that they published has left. Returns what is
/// wrong; throws Departure.
std::string drive(Endpoint& endpoint, int rank, const Scenario& scenario);

/// Runs each rank in a thread of its own. `depart` is called when a rank vanishes, before its
/// endpoint is destroyed.
std::vector<std::string> driveThreads(const Scenario& scenario,
                                      std::vector<std::unique_ptr<Endpoint>> endpoints,
                                      const std::function<void(int rank)>& depart);

}  // namespace tutti::tests
