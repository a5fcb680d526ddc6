// The windows of ranks that have control planes but no communicators: who may use them, and what is
// left when one cannot be announced or mapped, or when a rank is gone.

#include "src/communicator/windows.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include <tutti/error.h>

#include "src/bootstrap/local_control_plane.h"
#include "tests/bootstrap/recording_listener.h"

namespace tutti::communicator {
namespace {

using bootstrap::RecordingListener;
using tests::countDescriptors;
using tests::eventually;

constexpr size_t kBytes = 100'000;

/// Ranks of one process that map each other's windows as processes do.
struct Ranks {
  explicit Ranks(int size, std::shared_ptr<SharedWindows> shared = nullptr)
      : planes(bootstrap::makeLocalControlPlanes(size)) {
    for (auto& plane : planes) tables.push_back(std::make_unique<WindowTable>(*plane, shared));
  }
  Memory allocate(int rank) { return tables[rank]->allocate(kBytes, nullptr); }
  bool usable(int rank, const Memory& memory) {
    return tables[rank]->locate(memory.data(), kBytes).window != 0;
  }
  /// Returns when `rank`'s table knows that `gone` is: it listens on an earlier channel.
  void awaitEnd(int rank, int gone) {
    RecordingListener listener;
    planes[rank]->listen(7, &listener);
    const auto events = listener.wait(1);
    planes[rank]->ignore(7);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_NE(events[0].find(std::to_string(gone)), std::string::npos) << events[0];
  }
  std::vector<std::shared_ptr<bootstrap::ControlPlane>> planes;
  std::vector<std::unique_ptr<WindowTable>> tables;
};

int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:tutti") != std::string::npos;
  return count;
}

TEST(Windows, AreSeenByAllAndEndWithTheMemory) {
  Ranks ranks(3);
  const int before = mappings();
  {
    Memory memory = ranks.allocate(1);
    ASSERT_TRUE(ranks.usable(1, memory));
    const auto place = ranks.tables[1]->locate(memory.as<std::byte>() + 5, 10);
    memory.as<std::byte>()[5] = std::byte{42};
    for (int peer : {0, 2}) EXPECT_EQ(*ranks.tables[peer]->resolve(1, place), std::byte{42});
    EXPECT_EQ(mappings(), before + 3);
  }
  EXPECT_TRUE(eventually([&] { return mappings() == before; }));
}

// Ranks that share a process see each other's windows where they are, and nothing but windows:
// other memory may go at any moment, while a peer works on it.
TEST(Windows, OfRanksInOneProcessAreTheMemoryItself) {
  Ranks ranks(3, std::make_shared<SharedWindows>());
  std::vector<std::byte> ordinary(kBytes);
  EXPECT_EQ(ranks.tables[1]->locate(ordinary.data(), kBytes).window, 0u);
  const int before = mappings(), open = countDescriptors();
  std::shared_ptr<std::byte> held;
  executor::WindowPlace place;
  {
    Memory memory = ranks.allocate(1);
    ASSERT_TRUE(ranks.usable(1, memory));
    EXPECT_EQ(ranks.tables[1]->locate(memory.as<std::byte>() + 1, kBytes).window, 0u);
    place = ranks.tables[1]->locate(memory.as<std::byte>() + 5, 10);
    held = ranks.tables[0]->resolve(1, place);
    EXPECT_EQ(held.get(), memory.as<std::byte>() + 5);
    EXPECT_EQ(ranks.tables[2]->resolve(1, place), held);
    EXPECT_EQ(mappings(), before + 1);
  }
  *held = std::byte{42};  // given back, and held by an operation still
  EXPECT_TRUE(eventually([&] { return !ranks.tables[0]->resolve(1, place); }));
  EXPECT_EQ(mappings(), before + 1);
  held.reset();
  EXPECT_TRUE(eventually([&] { return mappings() == before && countDescriptors() == open; }));
}

// Two communicators of one rank may share the same memory: it is one window until both have let go.
TEST(Windows, OfOneSegmentAreOneWhoeverSharesIt) {
  Ranks ranks(2);
  auto segment = std::make_shared<transports::shm::Segment>(
      transports::shm::Segment::create(kBytes, "a test"));
  const int before = mappings();
  std::optional<Memory> first(ranks.tables[0]->share(segment, kBytes, nullptr));
  const auto place = ranks.tables[0]->locate(first->data(), kBytes);
  ASSERT_NE(place.window, 0u);
  std::optional<Memory> second(ranks.tables[0]->share(segment, kBytes, nullptr));
  EXPECT_EQ(second->data(), first->data());
  EXPECT_EQ(ranks.tables[0]->locate(second->data(), kBytes).window, place.window);
  EXPECT_EQ(mappings(), before + 1);
  first.reset();
  EXPECT_NE(ranks.tables[1]->resolve(0, place), nullptr);
  EXPECT_TRUE(ranks.usable(0, *second));
  second.reset();
  EXPECT_TRUE(eventually([&] { return !ranks.tables[1]->resolve(0, place); }));
  EXPECT_EQ(ranks.tables[0]->locate(segment->data(), kBytes).window, 0u);
  EXPECT_TRUE(eventually([&] { return mappings() == before; }));
  // And it may become one again, which is another one.
  const Memory third = ranks.tables[0]->share(segment, kBytes, nullptr);
  EXPECT_GT(ranks.tables[0]->locate(third.data(), kBytes).window, place.window);
}

TEST(Windows, WorkWithoutThoseThatAreGone) {
  for (const bool killed : {true, false}) {
    Ranks ranks(3);
    Memory old = ranks.allocate(0);
    ASSERT_TRUE(ranks.usable(0, old));
    killed ? bootstrap::killLocalRank(*ranks.planes[2], "was killed") : ranks.planes[2]->leave();
    for (int survivor : {0, 1}) ranks.awaitEnd(survivor, 2);
    for (int survivor : {0, 1}) {
      const Memory memory = ranks.allocate(survivor);
      EXPECT_TRUE(ranks.usable(survivor, memory)) << (killed ? "killed" : "left");
    }
    EXPECT_TRUE(ranks.usable(0, old));
  }
}

TEST(Windows, NothingIsLeftOfOneThatCannotBeAnnounced) {
  Ranks ranks(3);
  const int mapped = mappings(), open = countDescriptors();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // Enough for the memory and for the copy that one peer gets, and not for the other's.
  const int lowest = ::dup(0);
  ::close(lowest);
  const rlimit tight{static_cast<rlim_t>(lowest) + 2, before.rlim_max};
  std::string error;
  try {
    throw Error(ErrorCode::Internal, "the first of its type: sanitizers need a descriptor for it");
  } catch (const Error&) {
  }
  for (int i = 0; i < 20 && error.empty(); ++i) {  // a peer may have closed the first copy already
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    try {
      ranks.allocate(0);
    } catch (const Error& e) {
      error = e.what();
      EXPECT_EQ(e.code(), ErrorCode::OutOfMemory);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  EXPECT_NE(error.find("ulimit -n"), std::string::npos) << error;
  EXPECT_TRUE(eventually([&] { return mappings() == mapped && countDescriptors() == open; }))
      << mappings() << " mappings instead of " << mapped << ", " << countDescriptors()
      << " descriptors instead of " << open;
  const Memory memory = ranks.allocate(0);
  EXPECT_TRUE(ranks.usable(0, memory));
}

TEST(Windows, AreOrdinaryMemoryWhenAPeerCannotMapThem) {
  auto planes = bootstrap::makeLocalControlPlanes(3);
  WindowTable first(*planes[0], nullptr), second(*planes[1], nullptr);
  RecordingListener poor;  // stands for a rank that cannot map
  planes[2]->listen(WindowTable::kChannel, &poor);
  std::thread refusing([&] {
    for (auto& announced : poor.takeMessages(1)) {
      // Its own answer would be the same: the descriptor is not one of a segment.
      bootstrap::ControlMessage bad{.channel = WindowTable::kChannel, .type = 0};
      bad.payload = base::ByteWriter().put(uint64_t{1}).put(uint64_t{kBytes}).take();
      bad.descriptors.emplace_back(::dup(0));
      planes[2]->send(0, std::move(bad));  // rank 0 refuses this one
      announced.type = static_cast<uint32_t>(2);
      announced.descriptors.clear();
      planes[2]->send(0, std::move(announced));  // and is refused its own
    }
  });
  const Memory memory = first.allocate(kBytes, nullptr);
  refusing.join();
  EXPECT_EQ(first.locate(memory.data(), kBytes).window, 0u);
  const auto answers = poor.wait(2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(answers[1].starts_with("message 0 2 ")) << answers[1];
  // Once it is gone nobody is in the way any more.
  planes[2]->ignore(WindowTable::kChannel);
  bootstrap::killLocalRank(*planes[2], "was killed");
  EXPECT_TRUE(eventually([&] { return first.locate(memory.data(), kBytes).window != 0; }));
}

}  // namespace
}  // namespace tutti::communicator
