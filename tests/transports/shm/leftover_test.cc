// Processes that are killed leave no shared memory behind.

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "src/base/clock.h"
#include "tests/transports/shm/fabrics.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {
namespace {

// Polled so many times, it vanishes.
class Doomed final : public Actor {
 public:
  explicit Doomed(int polls) : left_(polls) {}
  Poll poll(Endpoint&) override {
    if (left_-- == 0) throw Departure{};
    return Poll::Idle;
  }
  std::string describe() const override { return "waiting for its end"; }

 private:
  int left_;
};

uint64_t sharedMemoryBytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kilobytes = 0;
  while (file >> word)
    if (word == "Shmem:") file >> kilobytes;
  return kilobytes * 1024;
}

TEST(ShmLeftover, TheMemoryOfKilledProcessesComesBack) {
  constexpr int kRounds = 40;
  Scenario s;
  s.layout = {.channels = 8, .slotCount = 4, .slotBytes = 256 * 1024};
  const uint64_t inbox = transports::shm::inboxBytes(s.size, s.layout);
  const uint64_t before = sharedMemoryBytes();
  uint64_t seed = 0;
  s.actors = [&](int rank) {
    Actors actors;
    actors.push_back(std::make_unique<Doomed>(
        static_cast<int>(scramble(seed, static_cast<uint64_t>(rank)) % 200)));
    actors.push_back(sender({1 - rank, 0, 1'000'000, always(5000), uint64_t(rank)}));
    actors.push_back(receiver({1 - rank, 0, 1'000'000, always(5000), uint64_t(1 - rank)}));
    return actors;
  };
  const auto fabric = shmProcesses();
  for (seed = 1; seed <= kRounds; ++seed) {
    const auto problems = fabric->run(s);
    for (const std::string& problem : problems) ASSERT_EQ(problem, "") << "seed " << seed;
  }
  // Other programs use shared memory too, so only what stays counts, and a quarter of what would
  // have been left is allowed for them: 160 MiB.
  const uint64_t leak = kRounds * 2 * inbox;
  const auto deadline = base::Deadline::after(std::chrono::seconds(60));
  uint64_t after = sharedMemoryBytes();
  while (after > before + leak / 4 && !deadline.passed()) {
    ::usleep(100'000);
    after = sharedMemoryBytes();
  }
  EXPECT_LE(after, before + leak / 4) << "of " << leak << " bytes that were used";
}

}  // namespace
}  // namespace tutti::tests
