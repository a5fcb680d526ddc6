// Reading another rank's memory: whose it is, when it counts, and what cannot be read.

#include "transports/shm/peer_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include "transports/shm/endpoint.h"

namespace tutti::transports::shm {
namespace {

uint64_t addressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }

TEST(PeerMemory, IsReadWhileTheNonceSaysTheSame) {
  const std::vector<std::byte> theirs(100'000, std::byte{7});
  std::vector<std::byte> ours(theirs.size());
  Nonce nonce;
  const PeerMemory memory(nonce.place());
  EXPECT_TRUE(memory.isReadable());
  EXPECT_EQ(memory.read(addressOf(theirs.data()), ours.data(), ours.size()), 0);
  EXPECT_EQ(ours, theirs);
  nonce.erase();
  EXPECT_EQ(memory.read(addressOf(theirs.data()), ours.data(), ours.size()), ESRCH);
  EXPECT_FALSE(memory.isReadable());
}

TEST(PeerMemory, OfAnotherNonceIsAStrangers) {
  const Nonce one, other;
  NoncePlace mixed = one.place();
  EXPECT_NE(mixed.value, other.place().value);
  mixed.value = other.place().value;
  EXPECT_FALSE(PeerMemory(mixed).isReadable());
  mixed = one.place();
  mixed.process = 0;
  EXPECT_FALSE(PeerMemory(mixed).isReadable());
}

TEST(PeerMemory, OfADeadProcessIsGone) {
  const Nonce nonce;
  NoncePlace place = nonce.place();
  place.process = ::fork();
  if (place.process == 0) {
    ::pause();
    ::_exit(0);
  }
  const PeerMemory memory(place);  // a child has a copy of the nonce
  EXPECT_TRUE(memory.isReadable());
  ::kill(place.process, SIGKILL);
  ::waitpid(place.process, nullptr, 0);
  EXPECT_FALSE(memory.isReadable());
}

TEST(PeerMemory, ThatEndsOnTheWayIsAnError) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* const data = static_cast<std::byte*>(
      ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_TRUE(isReadableByPeers(data, 3 * page));
  EXPECT_TRUE(isReadableByPeers(nullptr, 0));
  ASSERT_EQ(::munmap(data + 2 * page, page), 0);
  EXPECT_TRUE(isReadableByPeers(data, 2 * page));
  EXPECT_FALSE(isReadableByPeers(data, 2 * page + 1));
  EXPECT_FALSE(isReadableByPeers(data + 2 * page, 1));
  const Nonce nonce;
  std::vector<std::byte> to(3 * page);
  const PeerMemory memory(nonce.place());
  EXPECT_EQ(memory.read(addressOf(data), to.data(), 2 * page), 0);
  EXPECT_EQ(memory.read(addressOf(data), to.data(), 2 * page + 1), EFAULT);
  ::munmap(data, 2 * page);
}

std::array<std::unique_ptr<Endpoint>, 2> connectedPair() {
  std::array<std::unique_ptr<Endpoint>, 2> pair;
  for (int r : {0, 1}) pair[static_cast<size_t>(r)] = makeShmEndpoint(r, 2, {});
  for (int r : {0, 1}) {
    const auto own = static_cast<size_t>(r);
    pair[own]->connect(1 - r, pair[1 - own]->address(r));
  }
  return pair;
}

TEST(PeerMemory, OfAnEndpointCountsUntilItsCallsHaveFailed) {
  const auto [one, other] = connectedPair();
  ASSERT_TRUE(one->readsMemory(1));
  const std::array<std::byte, 2> theirs{std::byte{1}, std::byte{2}};
  std::array<std::byte, 2> ours{};
  EXPECT_TRUE(other->isReadableByPeers(theirs.data(), theirs.size()));
  EXPECT_EQ(one->readMemory(1, addressOf(theirs.data()), ours.data(), ours.size()), 0);
  EXPECT_EQ(ours, theirs);
  EXPECT_TRUE(other->cancelZeroCopy());
  EXPECT_EQ(one->readMemory(1, addressOf(theirs.data()), ours.data(), ours.size()), ESRCH);
}

TEST(PeerMemory, IsKeptByTheEnvironment) {
  // The environment is read once a process, so a fresh one has to look.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto reads = [](const char* text) {
    ::setenv("TUTTI_SHM_ATTACH", text, 1);
    const auto [one, other] = connectedPair();
    const std::byte data{};
    std::exit(one->readsMemory(1) + 2 * one->isReadableByPeers(&data, 1));
  };
  EXPECT_EXIT(reads("0"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(reads("1"), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace tutti::transports::shm
