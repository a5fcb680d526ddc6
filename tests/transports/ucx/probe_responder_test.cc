// Whether an address leads to a worker: what a prober finds there, and what the worker answers.

#include "transports/ucx/probe_responder.h"

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
using transports::ReachabilityProbe;
using transports::ucx::ProbeAddress;
using transports::ucx::probeAddress;
using transports::ucx::ProbeResponder;
using enum ReachabilityProbe::Finding;

const uint32_t kLoopback = ::htonl(INADDR_LOOPBACK), kOther = ::htonl(INADDR_LOOPBACK + 1);

/// What there is when it is not `first` any more.
ReachabilityProbe::Finding after(ReachabilityProbe::Finding first, ReachabilityProbe& probe) {
  const auto deadline = base::Deadline::after(20s);
  while (probe.look() == first && !deadline.passed()) std::this_thread::sleep_for(1ms);
  return probe.look();
}

TEST(UcxProbeResponder, IsKnownByItsNumber) {
  ProbeResponder responder({kLoopback, kOther});
  ASSERT_EQ(responder.address().places.size(), 2U);
  const auto probe = probeAddress(responder.address(), ReachabilityProbe::Scope::All);
  EXPECT_EQ(after(Silence, *probe), Host);  // nobody has answered, as of a stopped process
  responder.answer();
  EXPECT_EQ(after(Host, *probe), Peer);
  EXPECT_EQ(probe->look(), Peer);

  ProbeAddress another = responder.address();
  ++another.number;
  const auto wrong = probeAddress(another, ReachabilityProbe::Scope::All);
  EXPECT_EQ(after(Silence, *wrong), Host);
  responder.answer();
  EXPECT_EQ(after(Host, *wrong), Elsewhere);
  const std::string place = "127.0.0.1:" + std::to_string(another.places[0].port);
  EXPECT_NE(wrong->describe().find(
                place + " (somebody else answers there), an address that this host has, too, 127."),
            std::string::npos)
      << wrong->describe();
}

TEST(UcxProbeResponder, AllItsPlacesMustLeadToIt) {
  ProbeResponder responder({kLoopback, kOther});
  ProbeAddress gone;
  gone.places = ProbeResponder({kOther}).address().places;  // where nobody listens any more
  const auto refused = probeAddress(gone, ReachabilityProbe::Scope::All);
  EXPECT_EQ(after(Silence, *refused), Elsewhere);
  EXPECT_FALSE(refused->heard());
  EXPECT_NE(refused->describe().find(" (Connection refused)"), std::string::npos);

  ProbeAddress half = responder.address();
  half.places[0] = gone.places[0];
  const auto probe = probeAddress(half, ReachabilityProbe::Scope::All);
  EXPECT_EQ(after(Silence, *probe), Elsewhere);
  responder.answer();
  EXPECT_EQ(probe->look(), Elsewhere);

  half.places[0] = {INADDR_BROADCAST, 1};
  const auto cut = probeAddress(half, ReachabilityProbe::Scope::All);
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
TEST(UcxProbeResponder, PlacesThatAreNotUsedNeedNotLeadToIt) {
  const uint32_t used = ::htonl(INADDR_LOOPBACK + 2), unused = ::htonl(INADDR_LOOPBACK + 3);
  ProbeResponder responder({used, unused});
  ProbeAddress half = responder.address();
  half.places[1] = ProbeResponder({unused}).address().places[0];  // where nobody listens any more
  const auto find = [&](const ProbeAddress& where) {
    const auto probe = probeAddress(where, ReachabilityProbe::Scope::Used);
    const ReachabilityProbe::Finding first = after(Silence, *probe);
    EXPECT_EQ(probe->heard(), first == Host);
    responder.answer();
    return first == Host ? after(Host, *probe) : first;
  };
  EXPECT_EQ(find(half), Peer);
  const Traffic much(used, 300'000), little(unused, 100'000);
  EXPECT_EQ(find(half), Peer);
  ProbeAddress other = responder.address();
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
  const transports::ucx::ProbeSocket& place() const { return place_; }
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
  transports::ucx::ProbeSocket place_;
};

// Data goes where UCX just connects to, and not where the probes themselves do.
TEST(UcxProbeResponder, AConnectionThatIsBeingMadeIsUse) {
  const uint32_t answering = ::htonl(INADDR_LOOPBACK + 4), silent = ::htonl(INADDR_LOOPBACK + 5);
  ProbeResponder responder({answering});
  const Silent nobody(silent);
  ProbeAddress where = responder.address();
  where.places.push_back(nobody.place());
  const auto begin = [&] { return probeAddress(where, ReachabilityProbe::Scope::Used); };
  const auto first = begin(), second = begin();
  for (const auto& probe : {first.get(), second.get()}) {
    EXPECT_EQ(after(Silence, *probe), Host);
    EXPECT_TRUE(probe->heard());
    const std::string there = "127.0.0.6:" + std::to_string(nobody.place().port);
    EXPECT_NE(probe->describe().find(", " + there + " (no answer)"), std::string::npos)
        << probe->describe();
  }
  responder.answer();
  for (const auto& probe : {first.get(), second.get()}) EXPECT_EQ(after(Host, *probe), Peer);

  const base::FileDescriptor ucxs(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  nobody.connect(ucxs);
  const auto third = begin();
  std::this_thread::sleep_for(100ms);
  responder.answer();
  EXPECT_EQ(third->look(), Silence);
  EXPECT_FALSE(third->heard());
  EXPECT_EQ(third->describe().find("127.0.0.5"), std::string::npos) << third->describe();
  EXPECT_NE(third->describe().find("127.0.0.6"), std::string::npos) << third->describe();
}

// To UCX it leads to processes of this host alone.
TEST(UcxProbeResponder, ALoopbackIsLeftOutWhereThereAreOthers) {
  const auto own = transports::ucx::ownAddresses();
  const auto other = std::ranges::find_if(
      own, [](uint32_t each) { return ::ntohl(each) >> 24 != IN_LOOPBACKNET; });
  if (other == own.end()) GTEST_SKIP() << "this host has a loopback alone";
  const auto places = ProbeResponder({kLoopback, *other, kOther}).address().places;
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].address, *other);
}

// 255.255.255.255 is nobody's for TCP, and no packet goes there.
TEST(UcxProbeResponder, WhereNoWayLeadsIsUnreachable) {
  const auto probe =
      probeAddress({.places = {{INADDR_BROADCAST, 1}}, .number = 1}, ReachabilityProbe::Scope::All);
  EXPECT_EQ(after(Silence, *probe), Unreachable) << probe->describe();
  EXPECT_FALSE(probe->heard());
}

// As many ports as UCX needs may be all that there are.
TEST(UcxProbeResponder, TakesNoneOfUcxsPorts) {
  const auto places = [](const char* range) {
    ::setenv("UCX_TCP_PORT_RANGE", range, 1);
    const ProbeResponder responder({kLoopback});
    ::unsetenv("UCX_TCP_PORT_RANGE");
    return responder.address().places.size();
  };
  EXPECT_EQ(places("40000-40010"), 0U);
  EXPECT_EQ(places("0"), 1U);
  EXPECT_EQ(places(""), 1U);
}

// Who comes then waits, and the thread that would answer does not turn in circles.
TEST(UcxProbeResponder, WithoutDescriptorsItAnswersLater) {
  ProbeResponder responder({kLoopback});
  const auto probe = probeAddress(responder.address(), ReachabilityProbe::Scope::All);
  EXPECT_EQ(after(Silence, *probe), Host);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  responder.answer();
  const Outcome another =
      outcomeOf([&] { probeAddress(responder.address(), ReachabilityProbe::Scope::All); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(another.code, ErrorCode::System);
  EXPECT_EQ(probe->look(), Host);
  std::vector<pollfd> waiting;
  responder.listTo(waiting);
  EXPECT_TRUE(waiting.empty());
  responder.listTo(waiting);
  EXPECT_EQ(waiting.size(), 1U);
  responder.answer();
  EXPECT_EQ(after(Host, *probe), Peer);
}

// Whatever its ranks do: the worker's own thread answers. One that is not between hosts is not
// asked.
TEST(UcxProbeResponder, AWorkerAnswersByItself) {
  const auto probeTo = [](bool betweenHosts) {
    const transports::ucx::WorkerOptions options{
        .devices = "lo", .tls = "tcp,self", .betweenHosts = betweenHosts};
    const auto here = makeUcxEndpoint(transports::ucx::makeWorker(options), 0, 2, {});
    const auto there = makeUcxEndpoint(transports::ucx::makeWorker(options), 1, 2, {});
    here->connect(1, there->address(0));
    there->connect(0, here->address(1));  // else it answers nobody
    const auto probe = here->probe(1, ReachabilityProbe::Scope::All);
    if (!probe) return Silence;
    after(Silence, *probe);
    return after(Host, *probe);
  };
  EXPECT_EQ(probeTo(true), Peer);
  EXPECT_EQ(probeTo(false), Silence);
}

}  // namespace
}  // namespace tutti::tests
