#include "tests/transports/fabric.h"

#include <thread>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace tutti::tests {

void connectAll(std::vector<std::unique_ptr<Endpoint>>& endpoints) {
  const int size = static_cast<int>(endpoints.size());
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j)
      if (i != j)
        endpoints[static_cast<size_t>(i)]->connect(j,
                                                   endpoints[static_cast<size_t>(j)]->address(i));
}

std::string drive(Endpoint& endpoint, Actors actors, std::chrono::seconds within) {
  const auto deadline = base::Deadline::after(within);
  base::Backoff backoff(false);
  try {
    while (!actors.empty()) {
      bool moved = false;
      std::erase_if(actors, [&](const auto& actor) {
        const Poll poll = actor->poll(endpoint);
        moved |= poll != Poll::Idle;
        return poll == Poll::Done;
      });
      if (moved || endpoint.progress()) {
        backoff.reset();
        if (!deadline.passed()) continue;
      }
      if (deadline.passed()) return "timed out while " + actors.front()->describe();
      backoff.idle();
    }
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
        problems[r] = drive(*endpoints[r], scenario.actors(rank), scenario.within);
      } catch (const Departure&) {
        depart(rank);
        endpoints[r].reset();
      }
    });
  for (std::thread& t : threads) t.join();
  return problems;
}

}  // namespace tutti::tests
