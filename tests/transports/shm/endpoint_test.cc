// What is particular to endpoints over shared memory; what every transport must do is tested by the
// conformance suite.

#include "transports/shm/endpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <tutti/error.h>

namespace tutti::transports::shm {
namespace {

std::vector<std::unique_ptr<Endpoint>> connectedEndpoints(int size, const RingLayout& layout) {
  std::vector<std::unique_ptr<Endpoint>> all;
  for (int r = 0; r < size; ++r) all.push_back(makeShmEndpoint(r, size, layout));
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j)
      if (i != j) all[i]->connect(j, all[j]->address(i));
  return all;
}

// Changes a byte of the process's token in the blob.
EndpointAddress asFromAnotherProcess(EndpointAddress address) {
  address.blob[44] ^= std::byte{1};
  return address;
}

TEST(ShmLayout, InboxStaysWithinItsBudget) {
  for (int size = 2; size <= 1024; ++size) {
    const RingLayout layout = chooseLayout(size, 1);
    EXPECT_TRUE(std::has_single_bit(layout.slotCount)) << size;
    EXPECT_GE(layout.slotCount, 2u);
    EXPECT_EQ(layout.slotBytes % kLineBytes, 0u);
    EXPECT_GE(layout.slotBytes, 1024u);
    // Headers and the rounding to pages come on top of 8 MiB of slots.
    EXPECT_LE(inboxBytes(size, layout), (uint64_t{8} << 20) + uint64_t(size) * 8192 + (128 << 10))
        << size;
  }
}

TEST(ShmLayout, ImpossibleLayoutsAreRefused) {
  const auto make = [](RingLayout layout) { makeShmEndpoint(0, 2, layout); };
  EXPECT_THROW(make({.channels = 0}), Error);
  EXPECT_THROW(make({.channels = -1}), Error);
  EXPECT_THROW(make({.slotCount = 3}), Error);
  EXPECT_THROW(make({.slotCount = 1}), Error);
  EXPECT_THROW(make({.slotCount = 0}), Error);
  EXPECT_THROW(make({.slotBytes = 0}), Error);
  EXPECT_THROW(make({.slotBytes = 100}), Error);
  EXPECT_THROW(make({.slotBytes = size_t{1} << 40}), Error);
  EXPECT_THROW(makeShmEndpoint(2, 2, {}), Error);
  EXPECT_THROW(makeShmEndpoint(-1, 2, {}), Error);
}

// Each by itself would fit; the first already says that all of them do not.
TEST(ShmEndpoint, MoreRanksThanTheMachineHoldsAreRefusedAtOnce) {
  const RingLayout layout{.channels = 1, .slotCount = 2, .slotBytes = 64 << 10};
  const int ranks = 16384;
  ASSERT_LT(inboxBytes(ranks, layout), uint64_t{4} << 30);
  try {
    makeShmEndpoint(0, ranks, layout);
    FAIL() << "this machine has terabytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
    EXPECT_NE(std::string(error.what()).find("16384 ranks of one host need "), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("use fewer ranks"), std::string::npos) << error.what();
  }
}

TEST(ShmEndpoint, APeerOfTheSameProcessMayGoFirst) {
  auto all = connectedEndpoints(2, {});
  SendRing& ring = all[0]->sendRing(1, 0);
  *ring.payload(1) = std::byte{5};
  ring.publish(1, 2, 1);
  all[0].reset();
  ReceiveRing& from = all[1]->receiveRing(0, 0);
  ASSERT_TRUE(from.ready());
  EXPECT_EQ(*from.payload(), std::byte{5});
  from.release();  // the credit word is in the memory of the one that is gone
  EXPECT_TRUE(all[1]->sendRing(0, 0).ready());
}

TEST(ShmEndpoint, AnInboxThatIsGoneIsRefused) {
  auto a = makeShmEndpoint(0, 2, {});
  auto b = makeShmEndpoint(1, 2, {});
  EndpointAddress address = b->address(0);
  b.reset();
  EXPECT_THROW(a->connect(1, std::move(address)), Error);
}

TEST(ShmEndpoint, AwaitedWordsOfDifferentRingsShareNoLine) {
  auto all = connectedEndpoints(3, {.channels = 4, .slotCount = 2, .slotBytes = 128});
  std::vector<uintptr_t> lines;
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to)
      for (int c = 0; from != to && c < 4; ++c)
        lines.push_back(reinterpret_cast<uintptr_t>(all[to]->receiveRing(from, c).slot()));
  for (uintptr_t line : lines) EXPECT_EQ(line % kLineBytes, 0u);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end(),
                               [](auto a, auto b) { return b - a < kLineBytes; }),
            lines.end());
}

TEST(ShmLayout, TheEnvironmentOverridesTheSlot) {
  // The environment is read once a process, so a fresh one has to look.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto slotBytes = [](const char* text) {
    ::setenv("TUTTI_SLOT_BYTES", text, 1);
    std::exit(chooseLayout(8, 1).slotBytes == 1024 ? 0 : 1);
  };
  EXPECT_EXIT(slotBytes("1000"), ::testing::ExitedWithCode(0), "");
  const auto refused = [](const char* text) {
    ::setenv("TUTTI_SLOT_BYTES", text, 1);
    try {
      chooseLayout(8, 1);
    } catch (const Error& e) {
      std::exit(e.code() == ErrorCode::InvalidArgument ? 0 : 1);
    }
    std::exit(2);
  };
  EXPECT_EXIT(refused("99999999999"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused("much"), ::testing::ExitedWithCode(0), "");
}

TEST(ShmEndpoint, WithoutDescriptorsTheErrorNamesTheInbox) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = base::FileDescriptor(::dup(0)).get();  // the lowest free number
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::exception_ptr thrown;
  try {
    makeShmEndpoint(3, 4, {});
  } catch (...) {
    thrown = std::current_exception();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);  // sanitizers need descriptors to look at an exception
  ASSERT_TRUE(thrown);
  std::string text;
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::OutOfMemory);
    text = e.what();
  }
  for (const char* part : {"inbox of rank 3 of 4", "TUTTI_SLOT_BYTES", "ulimit -n", "bytes"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(ShmEndpoint, AnotherProcessCannotBeSomebodyElse) {
  const RingLayout layout{.channels = 1, .slotCount = 2, .slotBytes = 64};
  std::vector<std::unique_ptr<Endpoint>> all;
  for (int r = 0; r < 3; ++r) all.push_back(makeShmEndpoint(r, 3, layout));
  EXPECT_THROW(all[0]->connect(1, asFromAnotherProcess(all[2]->address(0))), Error);
  EXPECT_THROW(all[0]->connect(1, asFromAnotherProcess(all[1]->address(2))), Error);
  all[0]->connect(1, asFromAnotherProcess(all[1]->address(0)));
}

// 63 peers in other processes, and 64 descriptors: only our own inbox keeps one.
TEST(ShmEndpoint, ConnectionsKeepNoDescriptors) {
  const RingLayout layout{.channels = 1, .slotCount = 2, .slotBytes = 64};
  auto all = connectedEndpoints(8, layout);
  const auto open = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open();
  auto ours = makeShmEndpoint(0, 8, layout);
  EXPECT_EQ(open(), before + 1);
  for (int peer = 1; peer < 8; ++peer) {
    ours->connect(peer, asFromAnotherProcess(all[static_cast<size_t>(peer)]->address(0)));
  }
  EXPECT_EQ(open(), before + 1);
}

TEST(ShmEndpoint, OneRankNeedsNoMemory) {
  auto alone = makeShmEndpoint(0, 1, {});
  EXPECT_THROW(alone->address(0), Error);
  EXPECT_FALSE(alone->progress());
}

// By a message, and by a slot that is given back.
TEST(ShmEndpoint, WakesAPeerThatSleeps) {
  using namespace std::chrono_literals;
  constexpr auto kForever = 100s;
  const auto all = connectedEndpoints(3, {});
  EXPECT_EQ(makeShmEndpoint(0, 1, {})->sleepPlace(), nullptr);
  const auto sleepsUntil = [&](const std::function<void()>& action) {
    base::SleepPlace& place = *all[0]->sleepPlace();
    place.announce();
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      action();
    });
    const auto begin = std::chrono::steady_clock::now();
    place.sleep(kForever);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kForever / 2);
    other.join();
  };
  sleepsUntil([&] { all[2]->sendRing(0, 0).publish(1, 1, 0); });
  all[0]->sendRing(1, 0).publish(1, 1, 0);
  sleepsUntil([&] {
    ReceiveRing& ring = all[1]->receiveRing(0, 0);
    ASSERT_TRUE(ring.ready());
    ring.release();
  });
}

// Until an operation of the peer has failed.
TEST(ShmEndpoint, CountsWhatWasCopiedFromAPeersMemory) {
  const auto all = connectedEndpoints(3, {});
  EXPECT_TRUE(all[1]->cancelZeroCopy());
  EXPECT_FALSE(all[0]->memoryCounts(1));
  EXPECT_FALSE(all[2]->memoryCounts(1));
  EXPECT_TRUE(all[0]->memoryCounts(2));
  EXPECT_TRUE(all[1]->memoryCounts(2));
}

}  // namespace
}  // namespace tutti::transports::shm
