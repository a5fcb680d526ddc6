// Which links are told to be slow, by numbers as the kernel counts them, and that the kernel's
// come. tests/network/netem_hosts_test.cc has links that are slow.

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "src/bootstrap/link_watch.h"

namespace tutti::bootstrap {
namespace {

using Lines = std::vector<std::string>;

LinkWatch threeHosts() {
  return LinkWatch({{"10.0.0.1", "a"}, {"10.0.0.2", "b"}, {"10.0.0.3", "c"}});
}

TcpConnection connection(int socket, const std::string& peer, double roundTripMs,
                         uint64_t packets = 0, uint64_t sentAgain = 0) {
  return {socket, peer, roundTripMs, packets, sentAgain};
}

TEST(LinkWatch, NamesTheLinkWhoseRoundTripStandsOut) {
  LinkWatch watch = threeHosts();
  const std::vector<TcpConnection> quick = {connection(3, "10.0.0.1", 0.2),
                                            connection(4, "10.0.0.2", 0.25)};
  EXPECT_EQ(watch.look(quick), Lines());
  auto all = quick;
  all.push_back(connection(5, "10.0.0.3", 12.3));
  EXPECT_EQ(watch.look(all),
            Lines{"slow link to host c (10.0.0.3): a packet's round trip takes 12 ms at least, "
                  "with the other hosts 0.25 ms in the median"});
  EXPECT_EQ(watch.look(all), Lines()) << "it was told";
}

TEST(LinkWatch, KnowsNoSlowLinkAmongSlowOnes) {
  LinkWatch watch = threeHosts();
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 8), connection(4, "10.0.0.2", 9),
                        connection(5, "10.0.0.3", 49)}),
            Lines());
  // Quick ones that differ by ten times are quick.
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 0.1), connection(4, "10.0.0.2", 0.2),
                        connection(5, "10.0.0.3", 4.9)}),
            Lines());
}

TEST(LinkWatch, NamesARoundTripThatIsSlowByItself) {
  LinkWatch watch(std::map<std::string, std::string>{{"fd00::2", "far"}});
  EXPECT_EQ(watch.look({connection(3, "fd00::2", 49.9)}), Lines());
  EXPECT_EQ(watch.look({connection(3, "fd00::2", 50)}),
            Lines{"slow link to host far (fd00::2): a packet's round trip takes 50 ms at least"});
}

// The one that carries data may have waited in queues; the other one tells the link.
TEST(LinkWatch, TakesTheQuickestOfSeveralConnections) {
  LinkWatch watch = threeHosts();
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 70), connection(4, "10.0.0.1", 0.3)}), Lines());
}

TEST(LinkWatch, LeavesOutWhoIsNoHostOfTheJob) {
  LinkWatch watch = threeHosts();
  EXPECT_EQ(watch.look({connection(3, "192.0.2.7", 300, 100'000, 5'000)}), Lines());
}

TEST(LinkWatch, NamesTheLinkThatLosesPackets) {
  LinkWatch watch = threeHosts();
  const auto look = [&](uint64_t packets, uint64_t sentAgain) {
    return watch.look({connection(3, "10.0.0.1", 0.2, 5'000'000, 100),
                       connection(4, "10.0.0.2", 0.2, packets, sentAgain)});
  };
  EXPECT_EQ(look(600, 9), Lines()) << "of too few packets";
  EXPECT_EQ(look(1200, 12),
            Lines{"slow link to host b (10.0.0.2): 1% of 1200 packets had to be sent again"});
  EXPECT_EQ(look(9000, 900), Lines()) << "it was told";
}

// Of a link that was good for long, and of one whose socket is another one's now.
TEST(LinkWatch, JudgesWhatWasSentOfLate) {
  LinkWatch watch = threeHosts();
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 0.2, 1'000'000, 10)}), Lines());
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 0.2, 1'000'500, 13)}), Lines());
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 0.2, 1'001'000, 15)}),
            Lines{"slow link to host a (10.0.0.1): 0.5% of 1000 packets had to be sent again"});
  EXPECT_EQ(watch.look({connection(3, "10.0.0.2", 0.2, 2'000, 20)}),
            Lines{"slow link to host b (10.0.0.2): 1% of 2000 packets had to be sent again"});
}

TEST(LinkWatch, NamesALinkForBothReasons) {
  LinkWatch watch = threeHosts();
  EXPECT_EQ(watch.look({connection(3, "10.0.0.1", 80, 2'000, 20)}).size(), 2U);
}

/// Two ends of a connection over the loopback.
struct Connected {
  Connected() {
    wire::Address any{.family = wire::Family::Ipv4};
    any.ip = {std::byte{127}, {}, {}, std::byte{1}};
    const base::FileDescriptor listener = wire::listenOn(any, 1);
    wire::Connecting begun = wire::startConnecting(*wire::localAddress(listener.get()));
    client = std::move(begun.socket);
    for (int tries = 0; !server && tries < 1000; ++tries) {
      server = base::FileDescriptor(::accept(listener.get(), nullptr, nullptr));
      if (!server) ::usleep(1000);
    }
  }
  base::FileDescriptor client, server;
};

TEST(TcpConnections, AreThoseOfThisProcessAsTheKernelCountsThem) {
  const auto mine = [](const Connected& sockets) {
    auto all = tcpConnections();
    std::erase_if(all, [&](const TcpConnection& one) {
      return one.socket != sockets.client.get() && one.socket != sockets.server.get();
    });
    return all;
  };
  const Connected sockets;
  ASSERT_TRUE(sockets.client && sockets.server);
  std::array<std::byte, 1000> data{};
  for (int packet = 1; packet <= 5; ++packet) {  // each read before the next: a packet of its own
    ASSERT_EQ(::send(sockets.client.get(), data.data(), data.size(), 0), ssize_t{1000});
    ssize_t taken = -1;
    for (int tries = 0; taken < 0 && tries < 1000; ++tries) {
      taken = ::recv(sockets.server.get(), data.data(), data.size(), 0);
      if (taken < 0) ::usleep(1000);
    }
    ASSERT_EQ(taken, ssize_t{1000});
  }
  const auto found = mine(sockets);
  ASSERT_EQ(found.size(), 2U);
  for (const TcpConnection& one : found) {
    EXPECT_EQ(one.peer, "127.0.0.1");
    EXPECT_GT(one.roundTripMs, 0);
    EXPECT_LT(one.roundTripMs, 1000);
    EXPECT_EQ(one.sentAgain, 0U);
    EXPECT_EQ(one.packets, one.socket == sockets.client.get() ? 5U : 0U);
  }
  EXPECT_EQ(peerIp(0), "") << "no IP socket";
}

}  // namespace
}  // namespace tutti::bootstrap
