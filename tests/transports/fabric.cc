#include "tests/transports/fabric.h"

#include <sched.h>

#include <thread>

#include <tutti/error.h>
#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/support/leftovers.h"

namespace tutti::tests {

void connectAll(std::vector<std::unique_ptr<Endpoint>>& endpoints) {
  const int size = static_cast<int>(endpoints.size());
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j)
      if (i != j)
        endpoints[static_cast<size_t>(i)]->connect(j,
                                                   endpoints[static_cast<size_t>(j)]->address(i));
}

namespace {

// The death of the rank that vanishes may be reported, that of no other.
bool progress(Endpoint& endpoint, const std::optional<int>& departs) {
  try {
    return endpoint.progress();
  } catch (const transports::ConnectionLost& lost) {
    if (lost.peer() != departs) throw;
    return true;
  }
}

}  // namespace

void settleAll(const std::vector<std::unique_ptr<Endpoint>>& all) {
  // What has left one end may still be on its way to the other.
  constexpr int kQuietRounds = 100;
  const auto deadline = base::Deadline::after(kPatience);
  for (int quiet = 0; quiet < kQuietRounds && !deadline.passed(); ++quiet) {
    for (const auto& endpoint : all)
      if (endpoint && endpoint->progress()) quiet = 0;
    ::sched_yield();
  }
}

std::string drive(Endpoint& endpoint, int rank, const Scenario& scenario) {
  const auto deadline = base::Deadline::after(scenario.within);
  base::Backoff backoff(false);
  Actors actors = scenario.actors(rank);
  try {
    while (!actors.empty()) {
      bool moved = false;
      std::erase_if(actors, [&](const auto& actor) {
        const Poll poll = actor->poll(endpoint);
        moved |= poll != Poll::Idle;
        return poll == Poll::Done;
      });
      if (moved || progress(endpoint, scenario.departs)) {
        backoff.reset();
        if (!deadline.passed()) continue;
      }
      if (deadline.passed()) return "timed out while " + actors.front()->describe();
      backoff.idle();
    }
    endpoint.flush();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

std::vector<std::string> driveThreads(const Scenario& scenario,
                                      std::vector<std::unique_ptr<Endpoint>> endpoints,
                                      const std::function<void(int rank)>& depart) {
  std::vector<std::string> problems(endpoints.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < endpoints.size(); ++r)
    threads.emplace_back([&, r] {
      const int rank = static_cast<int>(r);
      try {
        problems[r] = drive(*endpoints[r], rank, scenario);
      } catch (const Departure&) {
        depart(rank);
        endpoints[r].reset();
      }
    });
  for (std::thread& t : threads) t.join();
  return problems;
}

}  // namespace tutti::tests
