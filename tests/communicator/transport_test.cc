// Which transport joins the ranks, where the caller chooses.

#include <sys/mman.h>

#include <gtest/gtest.h>

#include <thread>

#include <tutti/tutti.h>

#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

void checkSome(Communicator& c) {
  Windows windows(c, 70001 * sizeof(float) * c.size() + 192);
  for (const size_t count : {0, 1, 777, 70001})
    for (Windows* const where : {static_cast<Windows*>(nullptr), &windows})
      checkAll(c, {.count = count, .root = static_cast<int>(count) % c.size(), .windows = where});
}

/// The networks, between ranks of this host.
class Networks : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Networks, testing::Values("tcp", "ucx"));

TEST_P(Networks, JoinThreads) {
  auto ranks = Communicator::createLocal(3, {.timeout = 30s, .transport = GetParam()});
  runRanks(ranks, checkSome);
  for (Communicator& c : ranks)
    EXPECT_NE(c.describe().find("by " + std::string(GetParam()) + "\n"), std::string::npos)
        << c.describe();
}

TEST_P(Networks, JoinProcesses) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    Communicator c = context.join({.timeout = 30s, .transport = GetParam()});
    checkSome(c);
    auto part = c.split(c.rank() / 2, 0);
    checkSome(*part);
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(90s));
}

TEST(Transport, RanksThatAskForDifferentOnesDisagree) {
  RankProcesses ranks(2, [](const RankProcesses::Context& context) {
    const Outcome outcome = outcomeOf([&] {
      context.join({.setupTimeout = 20s, .transport = context.rank == 0 ? "ucx" : "shm"});
    });
    const bool named = outcome.text.find("transport='ucx'") != std::string::npos &&
                       outcome.text.find("transport='shm'") != std::string::npos;
    context.say(outcome.text);
    return outcome.code == ErrorCode::Mismatch && named ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

TEST(Transport, EncryptsIfAllRanksDo) {
  const CommunicatorOptions sealed{
      .timeout = 30s, .transport = "tcp", .encryption = true, .preSharedKey = "ours"};
  auto ranks = Communicator::createLocal(3, sealed);
  runRanks(ranks, checkSome);
  RankProcesses processes(2, [](const RankProcesses::Context& context) {
    const Outcome outcome = outcomeOf([&] {
      context.join({.setupTimeout = 20s, .transport = "tcp", .encryption = context.rank == 0});
    });
    context.say(outcome.text);
    const bool named = outcome.text.find("disagree about encryption") != std::string::npos;
    return outcome.code == ErrorCode::Refused && named ? 0 : 1;
  });
  EXPECT_TRUE(processes.allSucceed(60s));
  const Outcome byUcx =
      outcomeOf([] { Communicator::createLocal(2, {.transport = "ucx", .encryption = true}); });
  EXPECT_EQ(byUcx.code, ErrorCode::Unsupported) << byUcx.text;
}

TEST(Transport, AnUnknownOneIsRefused) {
  const Outcome outcome = outcomeOf([] { Communicator::createLocal(2, {.transport = "pigeon"}); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  EXPECT_NE(outcome.text.find("\"pigeon\" is not shm, tcp, ucx, shm+tcp or shm+ucx"),
            std::string::npos)
      << outcome.text;
}

/// Memory whose use after the end ends the process.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  float* data() const { return static_cast<float*>(data_); }

 private:
  const size_t bytes_;
  void* const data_;
};

// What a failed call has sent zero-copy is not read after it has thrown, and other
// communicators of the same ranks go on.
TEST_P(Networks, GiveMemoryOfAFailedCallBackAndHarmNoOther) {
  constexpr size_t kCount = 8 << 20;
  RankProcesses ranks(2, [](const RankProcesses::Context& context) {
    Communicator c = context.join({.timeout = 30s, .transport = GetParam()});
    checkSome(c);
    for (int round = 0; round < 3; ++round) {
      auto part = c.split(0, 0);
      const Outcome outcome = outcomeOf([&] {
        const Pages in(kCount * sizeof(float)), out(kCount * sizeof(float));
        if (c.rank() == 1) {
          std::this_thread::sleep_for(50ms);
          part->abort();
        }
        part->allReduce({.send = in.data(), .recv = out.data(), .count = kCount});
      });
      EXPECT_EQ(outcome.code, ErrorCode::Aborted) << outcome.text;
      checkSome(c);
    }
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(90s));
}

}  // namespace
}  // namespace tutti::tests
