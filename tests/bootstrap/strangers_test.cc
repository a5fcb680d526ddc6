// Strangers at the rendezvous, ranks that lie, and jobs that meet at one port.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <thread>

#include <tutti/log.h>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/wire/setup_connection.h"
#include "src/wire/handshake_listener.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::contains;
using tests::eventually;

using std::chrono::milliseconds;

Rendezvous tcpPoint() {
  // A port that is free now: the kernel chooses one, and it is given back.
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  TUTTI_SYSCALL(::bind(probe.get(), reinterpret_cast<sockaddr*>(&at), size));
  TUTTI_SYSCALL(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&at), &size));
  Rendezvous point = randomRendezvous();
  point.address = wire::resolve("127.0.0.1", ntohs(at.sin_port));
  point.openedByRankZero = true;
  return point;
}

/// "joined", or the error.
std::string joinAs(const Rendezvous& point, int rank, int size, milliseconds time) {
  try {
    const auto plane = join({.rank = rank, .size = size, .id = encode(point), .source = "test"},
                            base::Deadline::after(time));
    plane->leave();
    return "joined";
  } catch (const Error& error) {
    return base::message("error ", toString(error.code()), ": ", error.what());
  }
}

/// The ranks' results, as threads.
std::vector<std::string> joinAll(const Rendezvous& point, int size, int first = 0,
                                 milliseconds time = kPatience) {
  std::vector<std::string> said(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = first; rank < size; ++rank)
    threads.emplace_back(
        [&, rank] { said[static_cast<size_t>(rank)] = joinAs(point, rank, size, time); });
  for (auto& thread : threads) thread.join();
  return said;
}

base::FileDescriptor dial(const wire::Address& address) {
  base::FileDescriptor socket;
  eventually([&] {
    wire::Connecting made = wire::startConnecting(address);
    if (made.error == 0) socket = std::move(made.socket);
    return made.error == 0;
  });
  return socket;
}

bool isClosedByPeer(int socket) {
  char byte = 0;
  const ssize_t count = ::recv(socket, &byte, 1, MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

TEST(Strangers, GarbageSilenceAndScansDoNotDelayAJob) {
  Rendezvous unix = randomRendezvous();
  unix.openedByRankZero = true;
  for (const Rendezvous& point : {unix, tcpPoint()}) {
    Rendezvous opened = point;
    opened.openedByRankZero = false;
    RendezvousServer server(opened, std::chrono::seconds(60));
    std::vector<base::FileDescriptor> silent, talking;
    for (int i = 0; i < 40; ++i) {
      silent.push_back(dial(point.address));
      talking.push_back(dial(point.address));
      const std::string text = "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n" + std::string(200, 'x');
      ::send(talking.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
      dial(point.address);  // a port scan: connects and goes
    }
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(joinAll(opened, 4), std::vector<std::string>(4, "joined"));
    // Faster than any stranger is dropped for silence, so nobody waited for one.
    EXPECT_LT(std::chrono::steady_clock::now() - start, wire::HandshakeListener::kHandshakeTime);
    for (const auto& socket : talking)
      EXPECT_TRUE(eventually([&] { return isClosedByPeer(socket.get()); }));
  }
}

// Else they could say it, and come again as existing ranks.
TEST(Strangers, ThatAreNewRanksLearnNoTicket) {
  const Ticket ticket = wire::randomBytes<sizeof(Ticket)>();
  const auto server = openRendezvous(UniqueId::Reach::Host, kPatience, {1, ticket});
  const auto end = base::Deadline::after(kPatience);
  RendezvousClient existing(server->point(), 0, 2, end), fresh(server->point(), 1, 2, end);
  Arrival arrival{.info = describeThisProcess(), .listening = wire::randomUnixAddress()};
  fresh.send(arrival);
  arrival.ticket = ticket;
  existing.send(arrival);
  wire::PollSet set;
  while (!fresh.hasTable()) {
    fresh.checkDeadline("the table");
    set.clear();
    fresh.watch(set);
    set.wait(100);
    fresh.advance(set);
  }
  for (const Arrival& rank : fresh.table().ranks) EXPECT_EQ(rank.ticket, Ticket{});
}

TEST(Strangers, MoreThanTheListenerHoldsMakeRoomForTheRanks) {
  Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  std::vector<base::FileDescriptor> silent;
  for (int i = 0; i < 600; ++i) silent.push_back(dial(point.address));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(joinAll(point, 3), std::vector<std::string>(3, "joined"));
  // Nobody waited for a stranger to be dropped for silence: they had to make room.
  EXPECT_LT(std::chrono::steady_clock::now() - start, wire::HandshakeListener::kHandshakeTime);
}

TEST(Strangers, ASilentConnectionIsDroppedAfterTheHandshakeTime) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  const base::FileDescriptor silent = dial(point.address);
  EXPECT_TRUE(eventually([&] { return isClosedByPeer(silent.get()); }));
  EXPECT_FALSE(server.finished());
}

// As another user of the machine could fill the disk.
TEST(Strangers, ManyAreCountedInAFewLines) {
  constexpr int kStrangers = 300;
  int counted = 0, lines = 0;
  const Rendezvous point = randomRendezvous();
  setLogSink([&](LogLevel, std::string_view text) {
    const std::string line(text);
    const std::string more = "... and ";
    ++lines;
    counted += line.starts_with(more) ? std::atoi(line.c_str() + more.size()) : 1;
  });
  const auto start = std::chrono::steady_clock::now();
  {
    RendezvousServer server(point, std::chrono::seconds(60));
    for (int i = 0; i < kStrangers; ++i) {
      const base::FileDescriptor stranger = dial(point.address);
      const std::string text(200, 'x');
      ::send(stranger.get(), text.data(), text.size(), MSG_NOSIGNAL);
      EXPECT_TRUE(eventually([&] { return isClosedByPeer(stranger.get()); }));
    }
  }
  const auto seconds = (std::chrono::steady_clock::now() - start) / std::chrono::seconds(1);
  setLogSink({});
  EXPECT_EQ(counted, kStrangers);
  EXPECT_LE(lines, 2 * (seconds + 1));
}

/// A rank's connection with the rendezvous that says whatever a test wants.
class Liar {
 public:
  Liar(const Rendezvous& point, const wire::Claim& claim)
      : connection_(wire::HandshakeConnection(
                        dial(point.address),
                        wire::Handshake::connecting(point.credentials,
                                                    wire::HandshakePurpose::Rendezvous, claim, -1)),
                    SetupConnection::Side::Connecting) {}
  void say(const SetupMessage& message) {
    pump([&] { return connection_.authenticated(); });
    connection_.send(message);
  }
  /// What it is told; Complete when nothing.
  Failure hear() {
    Failure heard{.text = "nothing"};
    pump([&] {
      while (auto message = connection_.receive())
        if (const auto* failure = std::get_if<Failure>(&*message)) heard = *failure;
      return heard.text != "nothing" || connection_.ended();
    });
    return heard;
  }
  bool hearsTable() {
    bool heard = false;
    pump([&] {
      while (auto message = connection_.receive()) heard |= std::holds_alternative<Table>(*message);
      return heard || connection_.ended();
    });
    return heard;
  }

 private:
  void pump(const std::function<bool()>& done) {
    const auto end = base::Deadline::after(kPatience);
    while (!done() && !end.passed()) {
      wire::PollSet set;
      connection_.watch(set);
      set.wait(50);
      connection_.advance(set);
    }
  }
  SetupConnection connection_;
};

Arrival arrivalOf(const std::string& bootId = describeThisProcess().bootId) {
  Arrival arrival{.info = describeThisProcess(), .listening = wire::randomUnixAddress()};
  arrival.info.bootId = bootId;
  return arrival;
}

wire::Claim claimOf(const Rendezvous& point, int rank, int size) {
  return {
      .version = wire::kProtocolVersion, .job = point.credentials.job, .rank = rank, .size = size};
}

TEST(Liars, AnotherVersionIsNamedToBothSides) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  Liar honest(point, claimOf(point, 0, 2));
  honest.say(arrivalOf());
  wire::Claim future = claimOf(point, 1, 2);
  future.version = 99;
  Liar liar(point, future);
  liar.say(arrivalOf());
  for (Liar* rank : {&liar, &honest}) {
    const Failure why = rank->hear();
    EXPECT_EQ(why.code, ErrorCode::Refused);
    EXPECT_TRUE(contains(why.text, "version 99")) << why.text;
  }
}

TEST(Liars, AnotherHostThatNobodyReachesIsRefusedAndBothAreNamed) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  Liar here(point, claimOf(point, 0, 2));
  here.say(arrivalOf());
  Liar there(point, claimOf(point, 1, 2));
  there.say(arrivalOf("elsewhere/net:1"));
  for (Liar* rank : {&here, &there}) {
    const Failure why = rank->hear();
    EXPECT_EQ(why.code, ErrorCode::Refused);
    EXPECT_TRUE(contains(why.text, "elsewhere/net:1") &&
                contains(why.text, describeThisProcess().bootId) &&
                contains(why.text, "TUTTI_INTERFACE"))
        << why.text;
  }
}

TEST(Liars, ImpossibleWorldsAreRefusedAlone) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  for (auto [rank, size] :
       {std::pair{0, 1'000'000'000}, {-1, 4}, {4, 4}, {0, 0}, {0, -1}, {0, kMaxWorldSize + 1}}) {
    Liar liar(point, claimOf(point, rank, size));
    liar.say(arrivalOf());
    EXPECT_TRUE(contains(liar.hear().text, "is not in its world")) << rank << " of " << size;
  }
  EXPECT_EQ(joinAll(point, 2), std::vector<std::string>(2, "joined"));
}

TEST(Liars, AMalformedMessageFailsThatRanksJobByName) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  Liar honest(point, claimOf(point, 0, 2)), liar(point, claimOf(point, 1, 2));
  honest.say(arrivalOf());
  liar.say(arrivalOf());
  liar.say(Table{.ranks = {arrivalOf()}});  // only the rendezvous may
  EXPECT_TRUE(contains(honest.hear().text, "rank 1")) << "the honest rank is told";
}

TEST(Liars, ARanksOwnFailureIsToldToTheOthers) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, std::chrono::seconds(60));
  Liar first(point, claimOf(point, 0, 3)), second(point, claimOf(point, 1, 3));
  first.say(arrivalOf());
  second.say(arrivalOf());
  second.say(Failure{.code = ErrorCode::OutOfMemory, .text = "no memory for the mesh"});
  const Failure why = first.hear();
  EXPECT_EQ(why.code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(contains(why.text, "rank 1 (pid") && contains(why.text, "no memory for the mesh"));
  Liar late(point, claimOf(point, 2, 3));  // comes when all is over
  late.say(arrivalOf());
  EXPECT_TRUE(contains(late.hear().text, "no memory for the mesh"));
}

TEST(Liars, ARankThatConnectsToNobodyIsNamedAtTheDeadline) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, milliseconds(500));
  Liar honest(point, claimOf(point, 0, 2)), liar(point, claimOf(point, 1, 2));
  honest.say(arrivalOf());
  liar.say(arrivalOf());
  EXPECT_TRUE(honest.hearsTable());
  honest.say(Connected{});
  const Failure why = honest.hear();
  EXPECT_EQ(why.code, ErrorCode::Timeout);
  EXPECT_TRUE(contains(why.text, "2 of 2 ranks have arrived; not connected to all others: 1"))
      << why.text;
}

TEST(Ports, RanksMeetByTcp) {
  EXPECT_EQ(joinAll(tcpPoint(), 4), std::vector<std::string>(4, "joined"));
}

TEST(Ports, TwoJobsThatMeetAtOnePortDoNotMix) {
  for (const bool sameKey : {false, true}) {
    const Rendezvous first = tcpPoint();
    Rendezvous second = randomRendezvous();
    second.address = first.address;
    second.openedByRankZero = true;
    if (sameKey) second.credentials.secret = first.credentials.secret;  // another job id only
    Rendezvous opened = first;
    opened.openedByRankZero = false;
    RendezvousServer server(opened, std::chrono::seconds(60));
    const auto strangers = joinAll(second, 3);
    EXPECT_TRUE(contains(strangers[0], "EADDRINUSE") && contains(strangers[0], "another job"))
        << strangers[0];
    for (int rank : {1, 2})
      EXPECT_TRUE(contains(strangers[rank], "error refused") &&
                  contains(strangers[rank], sameKey ? "belongs to job" : "another job"))
          << strangers[rank];
    EXPECT_EQ(joinAll(opened, 3), std::vector<std::string>(3, "joined"));
  }
}

/// What three ranks of a world of three say that come one after another.
std::vector<std::string> joinInTurn(const Rendezvous& point, const std::vector<int>& ranks) {
  std::vector<std::string> said(ranks.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { said[i] = joinAs(point, ranks[i], 3, kPatience); });
    std::this_thread::sleep_for(milliseconds(300));
  }
  threads.clear();
  return said;
}

// As without a word the first to come would be one world, of ranks of both.
TEST(Ports, TwoJobsOfOneNameAreBothTold) {
  Rendezvous unix = randomRendezvous();
  unix.openedByRankZero = true;
  for (const Rendezvous& point : {unix, tcpPoint()})
    for (const auto& [ranks, twice] : {std::pair(std::vector{0, 1, 1}, "rank 1 (pid "),
                                       {std::vector{1, 0, 0}, "rank 0 (pid "}}) {
      const auto said = joinInTurn(point, ranks);
      const std::string places = "both came to " + point.address.describe();
      for (const std::string& rank : said)
        EXPECT_TRUE(contains(rank, "error refused") && contains(rank, twice) &&
                    contains(rank, places) && contains(rank, "TUTTI_JOB_ID") &&
                    contains(rank, "another port"))
            << rank;
      EXPECT_EQ(contains(said.back(), "EADDRINUSE"), ranks.back() == 0) << said.back();
    }
}

// The first two are a whole world, of one rank of each job; another comes a little later. On a busy
// machine it may come too late, when that world goes on: it is tried again.
TEST(Ports, AWholeWorldOfTwoJobsIsNoticedToo) {
  for (const int late : {0, 1}) {
    std::vector<std::string> said(3);
    for (int attempt = 0; attempt < 10; ++attempt) {
      Rendezvous point = tcpPoint();
      point.mayBeAnothersToo = true;
      std::vector<std::jthread> ranks;
      for (const int i : {0, 1, 2}) {
        if (i == 2) std::this_thread::sleep_for(Meeting::kSettleTime / 3);
        ranks.emplace_back([&, i] {
          said[static_cast<size_t>(i)] = joinAs(point, i < 2 ? i : late, 2, milliseconds(5000));
        });
      }
      ranks.clear();
      if (said[0] != "joined") break;
    }
    for (const std::string& rank : said)
      EXPECT_TRUE(contains(rank, "error refused") && contains(rank, "two jobs meet there")) << rank;
    EXPECT_EQ(contains(said[2], "EADDRINUSE"), late == 0) << said[2];
  }
}

// Who has the address of rank 0 is asked, and need not answer.
TEST(Ports, AnotherProgramAtTheAddressIsNamed) {
  for (const bool talks : {false, true}) {
    const Rendezvous point = tcpPoint();
    const base::FileDescriptor listener = listenOn(point.address, 4);
    std::jthread program([&](const std::stop_token& stop) {
      std::vector<base::FileDescriptor> clients;
      while (talks && !stop.stop_requested()) {
        clients.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!clients.back()) std::this_thread::sleep_for(milliseconds(10));
        const std::string text(200, 'x');
        if (clients.back()) ::send(clients.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
      }
    });
    const std::string said = joinAs(point, 0, 2, kPatience);
    EXPECT_TRUE(contains(said, "error system") && contains(said, "EADDRINUSE")) << said;
  }
}

TEST(Ports, NothingAtTheAddressIsATimeoutThatNamesIt) {
  const Rendezvous point = tcpPoint();
  const auto said = joinAll(point, 2, 1, milliseconds(300));
  EXPECT_TRUE(contains(said[1], "error timeout") && contains(said[1], point.address.describe()))
      << said[1];
}

}  // namespace
}  // namespace tutti::bootstrap
