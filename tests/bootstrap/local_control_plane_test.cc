// The control planes of one process: the shared suite, and what only they do.

#include "src/bootstrap/local_control_plane.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/bootstrap/control_plane_conformance.h"
#include "tests/bootstrap/recording_listener.h"

namespace tutti::bootstrap {

INSTANTIATE_TEST_SUITE_P(Local, ControlPlaneConformance,
                         testing::Values(ControlPlaneKind{"local", makeLocalControlPlanes}));

namespace {

TEST(LocalControlPlane, WorldSizesAreCheckedBeforeAllocation) {
  for (int size : {0, -1, 1'000'000'000, kMaxWorldSize + 1}) {
    try {
      makeLocalControlPlanes(size);
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos);
    }
  }
}

TEST(LocalControlPlane, AKilledRankIsSilent) {
  auto planes = makeLocalControlPlanes(3);
  RecordingListener dead, first, second;
  planes[0]->listen(1, &dead);
  planes[1]->listen(1, &first);
  planes[2]->listen(1, &second);
  planes[0]->send(1, makeMessage(1, 1, "before"));
  killLocalRank(*planes[0], "was killed by the test");
  planes[0]->send(1, makeMessage(1, 2, "after"));
  planes[1]->send(0, makeMessage(1, 3, "unheard"));
  EXPECT_EQ(first.wait(2),
            (std::vector<std::string>{"message 0 1 before", "lost 0 was killed by the test"}));
  EXPECT_EQ(second.wait(1), (std::vector<std::string>{"lost 0 was killed by the test"}));
  planes[0].reset();  // reports nothing again
  planes[1]->send(2, makeMessage(1, 4, "marker"));
  ASSERT_EQ(second.wait(2).size(), 2u);
  EXPECT_EQ(first.events().size(), 2u);
  EXPECT_TRUE(dead.events().empty());
  planes[1]->ignore(1);
  planes[2]->ignore(1);
}

TEST(LocalControlPlane, AThousandRanksShareOneThread) {
  constexpr int kRanks = 1024;
  auto planes = makeLocalControlPlanes(kRanks);
  std::vector<std::unique_ptr<RecordingListener>> listeners;
  for (int rank = 0; rank < kRanks; ++rank) {
    listeners.push_back(std::make_unique<RecordingListener>());
    planes[rank]->listen(1, listeners.back().get());
  }
  for (int rank = 0; rank < kRanks; ++rank)
    planes[rank]->send((rank + 1) % kRanks, makeMessage(1, 0, "ring"));
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(listeners[rank]->wait(1).front(),
              base::message("message ", (rank + kRanks - 1) % kRanks, " 0 ring"));
  killLocalRank(*planes[500], "died");
  for (int rank = 0; rank < kRanks; ++rank)
    if (rank != 500) {
      EXPECT_EQ(listeners[rank]->wait(2).at(1), "lost 500 died");
    }
  for (int rank = 0; rank < kRanks; ++rank) planes[rank]->ignore(1);
}

TEST(LocalControlPlane, ThePlaneOfAPeerThatFloodsAnUnheardChannelIsLost) {
  auto planes = makeLocalControlPlanes(2);
  RecordingListener listener;
  planes[1]->listen(1, &listener);
  const std::string big(kMaxPayloadBytes, 'f');
  for (int i = 0; i < 5; ++i) planes[0]->send(1, makeMessage(2, 0, big));
  const auto events = listener.wait(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("lost 0 sent more than"), std::string::npos) << events[0];
  planes[1]->ignore(1);
}

TEST(LocalControlPlane, APeerThatSendsDescriptorsToAnUnheardChannelIsLost) {
  auto planes = makeLocalControlPlanes(2);
  RecordingListener listener;
  planes[1]->listen(1, &listener);
  for (int i = 0; i < 129; ++i) {  // 1,032 descriptors
    ControlMessage message = makeMessage(2, 0, "");
    message.descriptors.resize(kMaxDescriptors);
    planes[0]->send(1, std::move(message));
  }
  const auto events = listener.wait(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("too many descriptors"), std::string::npos) << events[0];
  planes[1]->ignore(1);
}

// What a rank remembers of channels that are over is bounded, whatever number of communicators its
// job has made; those that ended lately still drop what comes late.
TEST(LocalControlPlane, RemembersOnlyTheLatestOfManyIgnoredChannels) {
  constexpr uint64_t kChannels = 5000;
  auto planes = makeLocalControlPlanes(2);
  RecordingListener passing, last, first;
  for (uint64_t channel = 1; channel <= kChannels; ++channel) {
    planes[1]->listen(channel, &passing);
    planes[1]->ignore(channel);
  }
  for (const uint64_t channel : {kChannels, uint64_t{1}})
    planes[0]->send(1, makeMessage(channel, 0, "late"));
  planes[1]->listen(1, &first);
  EXPECT_EQ(first.wait(1), std::vector<std::string>{"message 0 0 late"});
  planes[1]->listen(kChannels, &last);
  planes[0]->send(1, makeMessage(kChannels, 0, "new"));
  EXPECT_EQ(last.wait(1), std::vector<std::string>{"message 0 0 new"});
  planes[1]->ignore(1);
  planes[1]->ignore(kChannels);
}

TEST(LocalControlPlane, IsInertInAForkedChild) {
  auto planes = makeLocalControlPlanes(2);
  RecordingListener listener;
  planes[1]->listen(1, &listener);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 1;
    try {
      planes[0]->send(1, makeMessage(1, 1, "from the child"));
    } catch (const Error& error) {
      code = error.code() == ErrorCode::InvalidUsage ? 0 : 2;
    }
    planes.clear();
    ::_exit(code);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  planes[0]->send(1, makeMessage(1, 2, "from the parent"));
  EXPECT_EQ(listener.wait(1), (std::vector<std::string>{"message 0 2 from the parent"}));
  planes[1]->ignore(1);
}

}  // namespace
}  // namespace tutti::bootstrap
