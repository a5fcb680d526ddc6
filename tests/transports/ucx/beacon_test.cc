// Whether an address leads to a worker: what a visitor finds there, and what the worker answers.

#include "transports/ucx/beacon.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/support/outcome.h"
#include "transports/ucx/endpoint.h"
#include "transports/ucx/network_devices.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using transports::Visit;
using transports::ucx::Beacon;
using transports::ucx::BeaconAddress;
using transports::ucx::visitBeacon;
using enum Visit::Finding;

const uint32_t kLoopback = ::htonl(INADDR_LOOPBACK), kOther = ::htonl(INADDR_LOOPBACK + 1);

/// What there is when it is not `first` any more.
Visit::Finding after(Visit::Finding first, Visit& visit) {
  const auto deadline = base::Deadline::after(20s);
  while (visit.look() == first && !deadline.passed()) std::this_thread::sleep_for(1ms);
  return visit.look();
}

TEST(UcxBeacon, IsKnownByItsNumber) {
  Beacon beacon({kLoopback, kOther});
  ASSERT_EQ(beacon.address().places.size(), 2U);
  const auto visit = visitBeacon(beacon.address(), Visit::Places::All);
  EXPECT_EQ(after(Silence, *visit), Host);  // nobody has answered, as of a stopped process
  beacon.answer();
  EXPECT_EQ(after(Host, *visit), Peer);
  EXPECT_EQ(visit->look(), Peer);

  BeaconAddress another = beacon.address();
  ++another.number;
  const auto wrong = visitBeacon(another, Visit::Places::All);
  EXPECT_EQ(after(Silence, *wrong), Host);
  beacon.answer();
  EXPECT_EQ(after(Host, *wrong), Elsewhere);
  const std::string place = "127.0.0.1:" + std::to_string(another.places[0].port);
  EXPECT_NE(wrong->describe().find(
                place + " (somebody else answers there), an address that this host has, too, 127."),
            std::string::npos)
      << wrong->describe();
}

TEST(UcxBeacon, AllItsPlacesMustLeadToIt) {
  Beacon beacon({kLoopback, kOther});
  BeaconAddress gone;
  gone.places = Beacon({kOther}).address().places;  // where nobody listens any more
  const auto refused = visitBeacon(gone, Visit::Places::All);
  EXPECT_EQ(after(Silence, *refused), Elsewhere);
  EXPECT_FALSE(refused->heard());
  EXPECT_NE(refused->describe().find(" (Connection refused)"), std::string::npos);

  BeaconAddress half = beacon.address();
  half.places[0] = gone.places[0];
  const auto visit = visitBeacon(half, Visit::Places::All);
  EXPECT_EQ(after(Silence, *visit), Elsewhere);
  beacon.answer();
  EXPECT_EQ(visit->look(), Elsewhere);

  half.places[0] = {INADDR_BROADCAST, 1};
  const auto cut = visitBeacon(half, Visit::Places::All);
  EXPECT_EQ(after(Silence, *cut), Unreachable);
  EXPECT_FALSE(cut->heard());  // the other place has answered
}

/// A connection to an address, over which so much was sent.
class Traffic {
 public:
  Traffic(uint32_t address, size_t bytes) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = address;
    socklen_t length = sizeof to;
    auto* const place = reinterpret_cast<sockaddr*>(&to);
    const base::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::bind(listener.get(), place, sizeof to), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), place, &length), 0);
    EXPECT_EQ(::connect(here_.get(), place, sizeof to), 0);
    there_ = base::FileDescriptor(::accept(listener.get(), nullptr, nullptr));
    std::vector<char> data(10'000);
    const auto all = static_cast<ssize_t>(data.size());
    for (size_t sent = 0; sent < bytes; sent += data.size()) {
      EXPECT_EQ(::send(here_.get(), data.data(), data.size(), 0), all);
      EXPECT_EQ(::recv(there_.get(), data.data(), data.size(), MSG_WAITALL), all);
    }
  }

 private:
  base::FileDescriptor here_{::socket(AF_INET, SOCK_STREAM, 0)}, there_;
};

// Where nobody knows by which place data goes, one will do; else it is those by which it does.
TEST(UcxBeacon, PlacesThatAreNotUsedNeedNotLeadToIt) {
  const uint32_t used = ::htonl(INADDR_LOOPBACK + 2), unused = ::htonl(INADDR_LOOPBACK + 3);
  Beacon beacon({used, unused});
  BeaconAddress half = beacon.address();
  half.places[1] = Beacon({unused}).address().places[0];  // where nobody listens any more
  const auto find = [&](const BeaconAddress& where) {
    const auto visit = visitBeacon(where, Visit::Places::Used);
    const Visit::Finding first = after(Silence, *visit);
    EXPECT_EQ(visit->heard(), first == Host);
    beacon.answer();
    return first == Host ? after(Host, *visit) : first;
  };
  EXPECT_EQ(find(half), Peer);
  const Traffic much(used, 300'000), little(unused, 100'000);
  EXPECT_EQ(find(half), Peer);
  BeaconAddress other = beacon.address();
  other.places[0] = half.places[1];
  other.places[0].address = used;
  EXPECT_EQ(find(other), Elsewhere);
  const Traffic more(unused, 200'000);
  EXPECT_EQ(find(half), Elsewhere);

  half.places[1] = {INADDR_BROADCAST, 1};  // nothing went there
  EXPECT_EQ(find(half), Peer);
}

/// Where connections to it remain ones that are being made: somebody listens and has no place for
/// them.
class Silent {
 public:
  explicit Silent(uint32_t address) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = address;
    socklen_t length = sizeof at;
    auto* const place = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(listener_.get(), place, sizeof at), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.get(), place, &length), 0);
    place_ = {address, ::ntohs(at.sin_port)};
    connect(first_);
  }
  const transports::ucx::BeaconPlace& place() const { return place_; }
  void connect(const base::FileDescriptor& socket) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = place_.address;
    to.sin_port = ::htons(place_.port);
    EXPECT_NE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(errno, EINPROGRESS);
    pollfd ready{socket.get(), POLLOUT, 0};
    EXPECT_EQ(::poll(&ready, 1, 100), &socket == &first_ ? 1 : 0);
  }

 private:
  base::FileDescriptor listener_{::socket(AF_INET, SOCK_STREAM, 0)},
      first_{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
  transports::ucx::BeaconPlace place_;
};

// Data goes where UCX just connects to, and not where the visits themselves do.
TEST(UcxBeacon, AConnectionThatIsBeingMadeIsUse) {
  const uint32_t answering = ::htonl(INADDR_LOOPBACK + 4), silent = ::htonl(INADDR_LOOPBACK + 5);
  Beacon beacon({answering});
  const Silent nobody(silent);
  BeaconAddress where = beacon.address();
  where.places.push_back(nobody.place());
  const auto begin = [&] { return visitBeacon(where, Visit::Places::Used); };
  const auto first = begin(), second = begin();
  for (const auto& visit : {first.get(), second.get()}) {
    EXPECT_EQ(after(Silence, *visit), Host);
    EXPECT_TRUE(visit->heard());
    const std::string there = "127.0.0.6:" + std::to_string(nobody.place().port);
    EXPECT_NE(visit->describe().find(", " + there + " (no answer)"), std::string::npos)
        << visit->describe();
  }
  beacon.answer();
  for (const auto& visit : {first.get(), second.get()}) EXPECT_EQ(after(Host, *visit), Peer);

  const base::FileDescriptor ucxs(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  nobody.connect(ucxs);
  const auto third = begin();
  std::this_thread::sleep_for(100ms);
  beacon.answer();
  EXPECT_EQ(third->look(), Silence);
  EXPECT_FALSE(third->heard());
  EXPECT_EQ(third->describe().find("127.0.0.5"), std::string::npos) << third->describe();
  EXPECT_NE(third->describe().find("127.0.0.6"), std::string::npos) << third->describe();
}

// To UCX it leads to processes of this host alone.
TEST(UcxBeacon, ALoopbackIsLeftOutWhereThereAreOthers) {
  const auto own = transports::ucx::ownAddresses();
  const auto other = std::ranges::find_if(
      own, [](uint32_t each) { return ::ntohl(each) >> 24 != IN_LOOPBACKNET; });
  if (other == own.end()) GTEST_SKIP() << "this host has a loopback alone";
  const auto places = Beacon({kLoopback, *other, kOther}).address().places;
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].address, *other);
}

// 255.255.255.255 is nobody's for TCP, and no packet goes there.
TEST(UcxBeacon, WhereNoWayLeadsIsUnreachable) {
  const auto visit =
      visitBeacon({.places = {{INADDR_BROADCAST, 1}}, .number = 1}, Visit::Places::All);
  EXPECT_EQ(after(Silence, *visit), Unreachable) << visit->describe();
  EXPECT_FALSE(visit->heard());
}

// As many ports as UCX needs may be all that there are.
TEST(UcxBeacon, TakesNoneOfUcxsPorts) {
  const auto places = [](const char* range) {
    ::setenv("UCX_TCP_PORT_RANGE", range, 1);
    const Beacon beacon({kLoopback});
    ::unsetenv("UCX_TCP_PORT_RANGE");
    return beacon.address().places.size();
  };
  EXPECT_EQ(places("40000-40010"), 0U);
  EXPECT_EQ(places("0"), 1U);
  EXPECT_EQ(places(""), 1U);
}

// Who comes then waits, and the thread that would answer does not turn in circles.
TEST(UcxBeacon, WithoutDescriptorsItAnswersLater) {
  Beacon beacon({kLoopback});
  const auto visit = visitBeacon(beacon.address(), Visit::Places::All);
  EXPECT_EQ(after(Silence, *visit), Host);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  beacon.answer();
  const Outcome another = outcomeOf([&] { visitBeacon(beacon.address(), Visit::Places::All); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(another.code, ErrorCode::System);
  EXPECT_EQ(visit->look(), Host);
  std::vector<pollfd> waiting;
  beacon.listTo(waiting);
  EXPECT_TRUE(waiting.empty());
  beacon.listTo(waiting);
  EXPECT_EQ(waiting.size(), 1U);
  beacon.answer();
  EXPECT_EQ(after(Host, *visit), Peer);
}

// Whatever its ranks do: the worker's own thread answers. One that is not between hosts is not
// asked.
TEST(UcxBeacon, AWorkerAnswersByItself) {
  const auto visitTo = [](bool betweenHosts) {
    const transports::ucx::WorkerOptions options{
        .devices = "lo", .tls = "tcp,self", .betweenHosts = betweenHosts};
    const auto here = makeUcxEndpoint(transports::ucx::makeWorker(options), 0, 2, {});
    const auto there = makeUcxEndpoint(transports::ucx::makeWorker(options), 1, 2, {});
    here->connect(1, there->address(0));
    const auto visit = here->visit(1, Visit::Places::All);
    if (!visit) return Silence;
    after(Silence, *visit);
    return after(Host, *visit);
  };
  EXPECT_EQ(visitTo(true), Peer);
  EXPECT_EQ(visitTo(false), Silence);
}

}  // namespace
}  // namespace tutti::tests
