// Unique ids of one process: what they cost, that each is good, and that they are told apart.

#include <sys/wait.h>
#include <tutti/communicator.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/rendezvous.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::BoardProcesses;
using tests::contains;
using tests::countDescriptors;
using tests::eventually;

constexpr int kIds = 40;

ptrdiff_t countThreads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

std::vector<UniqueId> makeIds(UniqueId::Reach reach) {
  std::vector<UniqueId> ids;
  for (int i = 0; i < kIds; ++i) ids.push_back(UniqueId::create(reach));
  return ids;
}

// In a process of its own, whose threads and descriptors are those of its ids.
TEST(UniqueIds, ThatNobodyUsesShareAThreadAndASocket) {
  for (const auto reach : {UniqueId::Reach::Host, UniqueId::Reach::Network}) {
    BoardProcesses process(1, [&](int, BoardProcesses::Board&) {
      UniqueId::create(reach);
      const auto threads = countThreads();
      const int descriptors = countDescriptors();
      makeIds(reach);
      return base::message(countThreads() - threads, " threads, ", countDescriptors() - descriptors,
                           " descriptors");
    });
    EXPECT_EQ(process.results()[0], "0 threads, 0 descriptors");
  }
}

TEST(UniqueIds, ThatNobodyUsesDoNotDelayTheExit) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = TUTTI_SYSCALL(::fork());
  if (child == 0) {
    makeIds(UniqueId::Reach::Host);
    std::exit(0);
  }
  int status = -1;
  TUTTI_SYSCALL(::waitpid(child, &status, 0));
  EXPECT_EQ(status, 0);
  EXPECT_LT((std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(1),
            tests::kDeathNoticedMs);
}

// Many jobs of two ranks at one address, all at the same time.
TEST(UniqueIds, AreOneJobEach) {
  const std::vector<UniqueId> ids = makeIds(UniqueId::Reach::Host);
  std::vector<std::string> said(2 * ids.size());
  std::vector<std::jthread> ranks;
  for (size_t i = 0; i < said.size(); ++i)
    ranks.emplace_back([&, i] {
      try {
        const auto plane = join({.rank = static_cast<int>(i % 2), .size = 2, .id = ids[i / 2]},
                                base::Deadline::after(kPatience));
        said[i] = greet(*plane);
      } catch (const Error& error) {
        said[i] = error.what();
      }
    });
  ranks.clear();
  EXPECT_EQ(said, std::vector<std::string>(said.size(), "heard 2"));
}

TEST(UniqueIds, OfAJobThatHasMetOrThatNobodyMadeAreRefused) {
  const UniqueId other = UniqueId::create(UniqueId::Reach::Host);  // keeps the address
  const UniqueId used = UniqueId::create(UniqueId::Reach::Host);
  ASSERT_EQ(decode(used).address, decode(other).address);
  join({.rank = 0, .size = 1, .id = used}, base::Deadline::after(kPatience))->leave();
  Rendezvous nobodys = decode(other);
  nobodys.credentials = randomRendezvous().credentials;
  for (const UniqueId& id : {used, encode(nobodys)}) {
    std::string said;
    eventually([&] {  // the server of the first stays for a moment
      try {
        join({.rank = 0, .size = 1, .id = id}, base::Deadline::after(kPatience));
        said = "joined";
      } catch (const Error& error) {
        said = base::message(toString(error.code()), ": ", error.what());
      }
      return contains(said, "has expired or was used");
    });
    EXPECT_TRUE(said.starts_with("refused: ") && contains(said, "has expired or was used")) << said;
  }
}

// What a child has of its parent's ids is inert, and it makes its own.
TEST(UniqueIds, OfAForkedChildAreItsOwn) {
  const UniqueId parents = UniqueId::create(UniqueId::Reach::Host);
  const pid_t child = TUTTI_SYSCALL(::fork());
  if (child == 0) {
    const UniqueId own = UniqueId::create(UniqueId::Reach::Host);
    const bool elsewhere = decode(own).address != decode(parents).address;
    join({.rank = 0, .size = 1, .id = own}, base::Deadline::after(kPatience))->leave();
    std::exit(elsewhere ? 0 : 1);
  }
  int status = -1;
  TUTTI_SYSCALL(::waitpid(child, &status, 0));
  EXPECT_EQ(status, 0);
  join({.rank = 0, .size = 1, .id = parents}, base::Deadline::after(kPatience))->leave();
}

}  // namespace
}  // namespace tutti::bootstrap
