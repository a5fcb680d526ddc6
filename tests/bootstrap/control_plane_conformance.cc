#include "tests/bootstrap/control_plane_conformance.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "tests/bootstrap/recording_listener.h"

namespace tutti::bootstrap {
namespace {

TEST_P(ControlPlaneConformance, KnowsItsMembers) {
  auto planes = make(3);
  ASSERT_EQ(planes.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(planes[rank]->rank(), rank);
    EXPECT_EQ(planes[rank]->size(), 3);
    EXPECT_GT(planes[rank]->peer(2 - rank).pid, 0);
    EXPECT_THROW(planes[rank]->peer(3), Error);
    EXPECT_THROW(planes[rank]->peer(-1), Error);
    EXPECT_THROW(planes[rank]->send(3, {}), Error);
  }
}

TEST_P(ControlPlaneConformance, OneRankTalksToItself) {
  auto planes = make(1);
  RecordingListener listener;
  planes[0]->listen(9, &listener);
  planes[0]->send(0, makeMessage(9, 1, "hi"));
  EXPECT_EQ(listener.wait(1), (std::vector<std::string>{"message 0 1 hi"}));
  planes[0]->ignore(9);
}

TEST_P(ControlPlaneConformance, MessagesArriveInOrder) {
  constexpr int kCount = 2000;
  auto planes = make(2);
  RecordingListener listener;
  planes[1]->listen(1, &listener);
  for (int i = 0; i < kCount; ++i)
    planes[0]->send(1, makeMessage(1, static_cast<uint32_t>(i), std::string(i % 97, 'x')));
  const auto events = listener.wait(kCount);
  ASSERT_EQ(events.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(events[i], base::message("message 0 ", i, " ", std::string(i % 97, 'x')));
  planes[1]->ignore(1);
}

TEST_P(ControlPlaneConformance, BigPayloadsArriveWhole) {
  auto planes = make(2);
  RecordingListener listener;
  planes[1]->listen(1, &listener);
  std::string big(kMaxPayloadBytes, '\0');
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>('a' + i % 23);
  planes[0]->send(1, makeMessage(1, 5, big));
  planes[0]->send(1, makeMessage(1, 6, "small"));
  const auto events = listener.wait(2);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[0] == "message 0 5 " + big);
  EXPECT_EQ(events[1], "message 0 6 small");
  EXPECT_THROW(planes[0]->send(1, makeMessage(1, 5, big + "x")), Error);
  planes[1]->ignore(1);
}

base::FileDescriptor memoryFile(const std::string& text) {
  base::FileDescriptor file(TUTTI_SYSCALL(::memfd_create("conformance", MFD_CLOEXEC)));
  TUTTI_SYSCALL(::pwrite(file.get(), text.data(), text.size(), 0));
  return file;
}

TEST_P(ControlPlaneConformance, DescriptorsArriveOpenAndCloseOnExec) {
  auto planes = make(2);
  RecordingListener listener;
  planes[1]->listen(1, &listener);
  constexpr int kMessages = 20;
  for (int i = 0; i < kMessages; ++i) {
    ControlMessage message = makeMessage(1, 2, std::string(i * 1000, 'p'));
    for (size_t k = 0; k < i % (kMaxDescriptors + 1); ++k)
      message.descriptors.push_back(memoryFile(base::message(i, "/", k)));
    planes[0]->send(1, std::move(message));
  }
  const auto events = listener.wait(kMessages);
  ASSERT_EQ(events.size(), static_cast<size_t>(kMessages)) << events.back();
  auto messages = listener.takeMessages(kMessages);
  ASSERT_EQ(messages.size(), static_cast<size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(messages[i].descriptors.size(), i % (kMaxDescriptors + 1));
    for (size_t k = 0; k < messages[i].descriptors.size(); ++k) {
      const int fd = messages[i].descriptors[k].get();
      char text[16] = {};
      EXPECT_GT(::pread(fd, text, sizeof text - 1, 0), 0);
      EXPECT_EQ(std::string(text), base::message(i, "/", k));
      EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
  }
  ControlMessage many;
  for (size_t k = 0; k <= kMaxDescriptors; ++k) many.descriptors.push_back(memoryFile("x"));
  EXPECT_THROW(planes[0]->send(1, std::move(many)), Error);
  planes[1]->ignore(1);
}

TEST_P(ControlPlaneConformance, KeepsMessagesUntilSomebodyListens) {
  auto planes = make(2);
  for (uint32_t i = 0; i < 3; ++i) planes[0]->send(1, makeMessage(40, i, "early"));
  RecordingListener other;
  planes[1]->listen(41, &other);
  planes[0]->send(1, makeMessage(41, 9, "now"));
  ASSERT_EQ(other.wait(1).size(), 1u);  // so the early ones have arrived and been kept
  RecordingListener listener;
  planes[1]->listen(40, &listener);
  planes[0]->send(1, makeMessage(40, 3, "late"));
  EXPECT_EQ(listener.wait(4), (std::vector<std::string>{"message 0 0 early", "message 0 1 early",
                                                        "message 0 2 early", "message 0 3 late"}));
  planes[1]->ignore(40);
  planes[1]->ignore(41);
}

TEST_P(ControlPlaneConformance, IgnoredChannelsDropUntilListenedToAgain) {
  auto planes = make(2);
  RecordingListener listener, other;
  planes[1]->listen(1, &listener);
  planes[1]->listen(2, &other);
  EXPECT_THROW(planes[1]->listen(1, &other), Error);
  planes[1]->ignore(1);
  planes[0]->send(1, makeMessage(1, 0, "dropped"));
  planes[0]->send(1, makeMessage(2, 0, "marker"));
  ASSERT_EQ(other.wait(1).size(), 1u);
  planes[1]->listen(1, &listener);
  planes[0]->send(1, makeMessage(1, 1, "heard"));
  EXPECT_EQ(listener.wait(1), (std::vector<std::string>{"message 0 1 heard"}));
  planes[1]->ignore(1);
  planes[1]->ignore(2);
}

TEST_P(ControlPlaneConformance, ListenersTick) {
  auto planes = make(2);
  RecordingListener first, second;
  planes[0]->listen(1, &first);
  planes[1]->listen(1, &second);
  EXPECT_TRUE(first.waitTicks(3));
  EXPECT_TRUE(second.waitTicks(3));
  planes[0]->ignore(1);
  planes[1]->ignore(1);
}

TEST_P(ControlPlaneConformance, ALostPeerIsReportedAfterItsMessages) {
  auto planes = make(3);
  RecordingListener second, third;
  planes[1]->listen(1, &second);
  planes[2]->listen(1, &third);
  const std::string text(100'000, 'y');
  for (uint32_t i = 0; i < 20; ++i) planes[0]->send(1, makeMessage(1, i, text));
  ASSERT_EQ(second.wait(20).size(), 20u);
  planes[0].reset();
  const auto events = second.wait(21);
  ASSERT_EQ(events.size(), 21u);
  EXPECT_EQ(events[20].substr(0, 7), "lost 0 ");
  EXPECT_NE(events[20].find("without leaving"), std::string::npos) << events[20];
  ASSERT_EQ(third.wait(1).size(), 1u);
  planes[1]->send(0, makeMessage(1, 0, "to the dead"));  // dropped
  planes[1]->send(2, makeMessage(1, 7, "alive"));
  const auto heard = third.wait(2);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[1], "message 1 7 alive");
  planes[1]->ignore(1);
  planes[2]->ignore(1);
}

TEST_P(ControlPlaneConformance, LeavingIsNotDying) {
  auto planes = make(3);
  RecordingListener second, third;
  planes[1]->listen(1, &second);
  planes[2]->listen(1, &third);
  planes[0]->send(1, makeMessage(1, 1, "last words"));
  planes[0]->leave();
  planes[0]->leave();                                      // once is enough
  planes[0]->send(1, makeMessage(1, 2, "after the end"));  // dropped
  planes[0].reset();
  EXPECT_EQ(second.wait(2), (std::vector<std::string>{"message 0 1 last words", "left 0"}));
  EXPECT_EQ(third.wait(1), (std::vector<std::string>{"left 0"}));
  ASSERT_TRUE(second.waitTicks(3));  // time for anything that must not come
  EXPECT_EQ(second.events().size(), 2u);
  EXPECT_EQ(third.events().size(), 1u);
  planes[1]->ignore(1);
  planes[2]->ignore(1);
}

TEST_P(ControlPlaneConformance, ANewListenerIsToldWhatItMissedInOrder) {
  auto planes = make(3);
  RecordingListener marker;
  planes[2]->listen(2, &marker);
  planes[0]->send(2, makeMessage(1, 1, "before"));
  planes[0]->leave();
  ASSERT_EQ(marker.wait(1).size(), 1u);  // left 0
  planes[1]->send(2, makeMessage(1, 2, "after"));
  planes[1].reset();
  ASSERT_EQ(marker.wait(2).size(), 2u);  // lost 1
  RecordingListener listener;
  planes[2]->listen(1, &listener);
  const auto events = listener.wait(4);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0], "message 0 1 before");
  EXPECT_EQ(events[1], "left 0");
  EXPECT_EQ(events[2], "message 1 2 after");
  EXPECT_EQ(events[3].substr(0, 7), "lost 1 ");
  planes[2]->ignore(1);
  planes[2]->ignore(2);
}

// A listener that notices calls after ignore() has returned, and answers every message.
class GuardedListener final : public ControlListener {
 public:
  explicit GuardedListener(ControlPlane& plane) : plane_(plane) {}
  void onMessage(int from, ControlMessage message) override {
    enter();
    if (message.type > 0) plane_.send(from, makeMessage(message.channel, message.type - 1, ""));
  }
  void onPeerLost(int, const std::string&) override { enter(); }
  void onTick() override { enter(); }
  std::atomic<bool> over{false};
  std::atomic<int> calls{0};
  std::atomic<int> late{0};

 private:
  void enter() {
    ++calls;
    std::this_thread::yield();
    if (over) ++late;
  }
  ControlPlane& plane_;
};

TEST_P(ControlPlaneConformance, IgnoreEndsCallsWhileMessagesFly) {
  auto planes = make(2);
  RecordingListener echo;
  planes[1]->listen(0, &echo);
  for (uint64_t channel = 1; channel <= 50; ++channel) {
    auto near = std::make_unique<GuardedListener>(*planes[0]);
    GuardedListener far(*planes[1]);
    planes[0]->listen(channel, near.get());
    planes[1]->listen(channel, &far);
    for (int i = 0; i < 10; ++i) planes[1]->send(0, makeMessage(channel, 1000, ""));
    for (int i = 0; i < 100'000 && near->calls < 20; ++i)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    EXPECT_GE(near->calls, 20);
    planes[0]->ignore(channel);
    near->over = true;
    std::this_thread::yield();
    EXPECT_EQ(near->late, 0);
    near.reset();  // address sanitizer sees a call after this
    planes[1]->ignore(channel);
  }
  planes[1]->ignore(0);
}

// Listens on a second channel, and tries what is forbidden, from inside a callback.
class NestedListener final : public ControlListener {
 public:
  NestedListener(ControlPlane& plane, ControlListener& inner) : plane_(plane), inner_(inner) {}
  void onMessage(int, ControlMessage) override {
    plane_.listen(77, &inner_);
    try {
      plane_.ignore(76);
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::InvalidUsage;
    }
  }
  void onPeerLost(int, const std::string&) override {}
  void onTick() override {}
  std::atomic<bool> refused{false};

 private:
  ControlPlane& plane_;
  ControlListener& inner_;
};

TEST_P(ControlPlaneConformance, ListenWorksInsideACallbackAndIgnoreIsRefused) {
  auto planes = make(2);
  RecordingListener inner;
  NestedListener outer(*planes[1], inner);
  planes[0]->send(1, makeMessage(77, 1, "kept"));
  planes[1]->listen(76, &outer);
  planes[0]->send(1, makeMessage(76, 1, "go"));
  EXPECT_EQ(inner.wait(1), (std::vector<std::string>{"message 0 1 kept"}));
  planes[1]->ignore(76);
  EXPECT_TRUE(outer.refused);
  planes[1]->ignore(77);
}

TEST_P(ControlPlaneConformance, SixteenRanksOnManyChannels) {
  constexpr int kRanks = 16;
  constexpr uint64_t kChannels = 25;
  auto planes = make(kRanks);
  std::vector<std::vector<std::unique_ptr<RecordingListener>>> heard(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    for (uint64_t channel = 0; channel < kChannels; ++channel) {
      heard[rank].push_back(std::make_unique<RecordingListener>());
      if (channel % 2) planes[rank]->listen(channel, heard[rank].back().get());
    }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      for (uint64_t channel = 0; channel < kChannels; ++channel)
        for (int to = 0; to < kRanks; ++to)
          planes[rank]->send(to, makeMessage(channel, static_cast<uint32_t>(rank), "m"));
    });
  for (auto& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank)
    for (uint64_t channel = 0; channel < kChannels; channel += 2)
      planes[rank]->listen(channel, heard[rank][channel].get());
  for (int rank = 0; rank < kRanks; ++rank)
    for (uint64_t channel = 0; channel < kChannels; ++channel) {
      auto events = heard[rank][channel]->wait(kRanks);
      std::sort(events.begin(), events.end());
      std::vector<std::string> expected;
      for (int from = 0; from < kRanks; ++from)
        expected.push_back(base::message("message ", from, " ", from, " m"));
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(events, expected) << "rank " << rank << " channel " << channel;
    }
  for (int rank = 0; rank < kRanks; ++rank)
    for (uint64_t channel = 0; channel < kChannels; ++channel) planes[rank]->ignore(channel);
}

}  // namespace
}  // namespace tutti::bootstrap
