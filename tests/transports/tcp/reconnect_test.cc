// Connections over TCP that break while both processes live.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include <tutti/error.h>
#include "src/base/clock.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"
#include "tests/transports/tcp/endpoints.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using transports::ConnectionLost;
using transports::ReceiveRing;
using transports::SendRing;
using transports::tcp::TcpOptions;

/// Breaks a random connection of this process every few milliseconds while it lives.
class Breaker {
 public:
  Breaker() : thread_([this] { run(); }) {}
  ~Breaker() {
    stop_.store(true);
    thread_.join();
  }
  int broken() const { return broken_.load(); }

 private:
  void run() {
    std::mt19937_64 random(testSeed());
    while (!stop_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      const std::vector<int> sockets = connectedSockets();
      if (sockets.empty()) continue;
      const int socket = sockets[random() % sockets.size()];
      if (random() % 4 == 0)
        ::shutdown(socket, SHUT_RDWR);
      else
        reset(socket);
      broken_.fetch_add(1);
    }
  }
  std::atomic<bool> stop_{false};
  std::atomic<int> broken_{0};
  std::thread thread_;
};

// Every message arrives once and in order, plain and sealed, from slots and from where it lies, by
// one stream and by several, though connections break all the time.
TEST(TcpReconnect, MessagesGoOnWhereTheyWere) {
  for (const TcpOptions& options :
       {TcpOptions{}, TcpOptions{.streams = 3}, TcpOptions{.encrypts = true},
        TcpOptions{.streams = 2, .encrypts = true}}) {
    SCOPED_TRACE(base::message(options.streams, " streams, encrypts: ", int{options.encrypts}));
    Scenario scenario;
    scenario.size = 3;
    scenario.layout = {.channels = 2, .slotCount = 4, .slotBytes = 256 << 10};
    scenario.actors = [&](int rank) {
      Actors actors;
      for (int peer = 0; peer < scenario.size; ++peer)
        for (int c = 0; peer != rank && c < scenario.layout.channels; ++c) {
          const auto stream = [&](int from, int to) {
            return Stream{peer, c, testMessages(600),
                          oddSizes(testSeed() + static_cast<uint64_t>(c), 256 << 10),
                          testSeed() + 100 * static_cast<uint64_t>(from) +
                              10 * static_cast<uint64_t>(to) + static_cast<uint64_t>(c)};
          };
          actors.push_back(c == 0 ? sender(stream(rank, peer))
                                  : zeroCopySender(stream(rank, peer)));
          actors.push_back(receiver(stream(peer, rank)));
        }
      return actors;
    };
    auto all = makeEndpoints(makeHubs(scenario.size), scenario.layout, options);
    connectAll(all);
    const Breaker breaker;
    for (const std::string& problem : driveThreads(scenario, std::move(all), [](int) {}))
      EXPECT_EQ(problem, "");
    EXPECT_GT(breaker.broken(), 5);
  }
}

// A message that was half received where it is wanted comes again to the same place.
TEST(TcpReconnect, PlacesAreFilledInTheEnd) {
  constexpr uint32_t kBytes = 1 << 20, kMessages = 150;
  auto all = makeEndpoints(makeHubs(2), {.slotCount = 4, .slotBytes = kBytes});
  connectAll(all);
  SendRing& send = all[0]->sendRing(1, 0);
  ReceiveRing& receive = all[1]->receiveRing(0, 0);
  std::vector<std::byte> wanted(size_t{4} * kBytes);
  const Breaker breaker;
  uint32_t placed = 0, sent = 0;
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (uint32_t beyond = 0; beyond < 4; ++beyond)
      receive.expect(wanted.data() + size_t{(i + beyond) % 4} * kBytes, kBytes, i + beyond, 1,
                     beyond);
    for (; sent < kMessages && send.ready(); ++sent) publish(send, kBytes, sent);
    ASSERT_TRUE(progressUntil(all, [&] { return receive.ready(); })) << i;
    ASSERT_TRUE(holds(receive, kBytes, i)) << i;
    placed += receive.payload() == wanted.data() + size_t{i % 4} * kBytes;
    receive.release();
    ASSERT_TRUE(progressUntil(all, [&] { return sent == kMessages || send.ready(); }));
  }
  EXPECT_GT(placed, kMessages / 2);
}

// Nothing is under way: the break is found all the same, and what is sent later arrives.
TEST(TcpReconnect, AnIdleConnectionIsMadeAgain) {
  auto all = makeEndpoints(makeHubs(2), {});
  connectAll(all);
  SendRing& send = all[0]->sendRing(1, 0);
  ReceiveRing& receive = all[1]->receiveRing(0, 0);
  for (uint32_t round = 1; round <= 10; ++round) {
    ASSERT_TRUE(eventually([&] { return send.ready(); })) << round;
    publish(send, 100, round);
    all[0]->flush();
    ASSERT_TRUE(eventually([&] { return receive.ready(); })) << round;
    ASSERT_TRUE(holds(receive, 100, round));
    receive.release();
    for (const int socket : connectedSockets()) reset(socket);
  }
}

/// What rank 0 says of rank 1, once; and that it says it once.
std::string lossOf(Endpoint& endpoint, std::chrono::milliseconds within) {
  const auto end = base::Deadline::after(within);
  std::string text;
  while (!end.passed()) {
    try {
      endpoint.progress();
    } catch (const ConnectionLost& lost) {
      EXPECT_EQ(text, "") << "said twice";
      EXPECT_EQ(lost.peer(), 1);
      text = lost.how();
    }
    std::this_thread::sleep_for(1ms);
  }
  return text;
}

// Its hub is gone, as of a process that has ended: nobody listens there any more.
TEST(TcpReconnect, APeerThatIsGoneIsLostWithinItsBound) {
  for (const auto reconnect : {0ms, 300ms}) {
    auto hubs = makeHubs(2);
    auto all = makeEndpoints(hubs, {}, {.reconnect = reconnect});
    connectAll(all);
    ReceiveRing& receive = all[0]->receiveRing(1, 0);
    publish(all[1]->sendRing(0, 0), 100, 1);
    ASSERT_TRUE(progressUntil(all, [&] { return receive.ready(); }));
    all[1]->cancelZeroCopy();  // it leaves without a word
    all[1].reset();
    hubs[1].reset();
    const std::string how = lossOf(*all[0], 1s + reconnect);
    EXPECT_TRUE(contains(how, "its connection broke: ")) << how;
    EXPECT_TRUE(contains(how, base::message("; it was not made again within ", reconnect.count(),
                                            " ms (TUTTI_RECONNECT_MS): ")))
        << how;
    EXPECT_TRUE(contains(how, "; rank 0 goes by lo; rank 1 goes by lo at 127.0.0.1:")) << how;
  }
}

// The bytes of a frame that was half sent belong to the caller again at once.
TEST(TcpReconnect, NothingIsSentAgainAfterACancel) {
  auto all = makeEndpoints(makeHubs(2), {.slotCount = 4, .slotBytes = 8 << 20});
  connectAll(all);
  all[1]->receiveRing(0, 0);
  SendRing& ring = all[0]->sendRing(1, 0);
  {
    const std::vector<std::byte> data(8 << 20, std::byte{5});
    for (uint32_t i = 0; i < 4; ++i) ring.publishZeroCopy(data.data(), 5, 1, 8 << 20);
    ASSERT_TRUE(progressUntil({}, [&] {
      all[0]->progress();
      return !connectedSockets().empty();
    }));
    for (int i = 0; i < 20; ++i) all[0]->progress();
    cancelZeroCopy(*all[0]);
  }
  for (const int socket : connectedSockets()) reset(socket);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(all[0]->progress());
  EXPECT_FALSE(ring.completed(4));
}

}  // namespace
}  // namespace tutti::tests
