// What is particular to endpoints over TCP; what every transport must do is tested by the
// conformance suite.

#include "transports/tcp/endpoint.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>

#include <tutti/error.h>
#include "tests/support/outcome.h"
#include "tests/support/text.h"
#include "tests/transports/flush.h"
#include "tests/transports/tcp/endpoints.h"
#include "transports/tcp/address.h"

namespace tutti::tests {
namespace {

using transports::EndpointAddress;
using transports::ReceiveRing;
using transports::RingLayout;
using transports::SendRing;
using transports::tcp::makeTcpEndpoint;
using transports::tcp::TcpAddressBlob;
using transports::tcp::TcpOptions;

// ---- set-up

TEST(TcpAddress, SaysWhyItIsRefused) {
  const Hubs hubs = makeHubs(2);
  const auto refusal = [&](const std::function<void(TcpAddressBlob&)>& change) {
    auto all = makeEndpoints(hubs, {});
    TcpAddressBlob blob = TcpAddressBlob::read(all[1]->address(0).blob);
    change(blob);
    const auto outcome = outcomeOf([&] { all[0]->connect(1, {blob.write(), {}}); });
    EXPECT_EQ(outcome.code, ErrorCode::Refused) << outcome.text;
    return outcome.text;
  };
  EXPECT_EQ(refusal([](TcpAddressBlob& b) { b.size = 3; }),
            "an address from rank 1 for rank 0 of 3 came as that of rank 1 for rank 0 of 2");
  EXPECT_TRUE(contains(refusal([](TcpAddressBlob& b) { b.layout.slotCount = 64; }), "64 slots of"));
  EXPECT_EQ(refusal([](TcpAddressBlob& b) { b.encrypts = true; }),
            "ranks disagree about encryption (TUTTI_ENCRYPTION): rank 1 encrypts, rank 0 does not");
  EXPECT_EQ(refusal([](TcpAddressBlob& b) { b.streams = 4; }),
            "ranks disagree about streams (TUTTI_TCP_STREAMS): rank 1 has 4, rank 0 has 1");
  auto all = makeEndpoints(hubs, {});
  EndpointAddress garbled = all[1]->address(0);
  garbled.blob[garbled.blob.size() / 2] ^= std::byte{1};
  EXPECT_EQ(outcomeOf([&] { all[0]->connect(1, std::move(garbled)); }).text,
            "a TCP address came garbled: its digest is wrong");
}

TEST(TcpEndpoint, ImpossibleRanksLayoutsAndStreamsAreRefused) {
  const auto hub = loopbackHub();
  const auto code = [&](int rank, int size, const RingLayout& layout, uint32_t streams = 1) {
    return outcomeOf([&] { makeTcpEndpoint(hub, rank, size, layout, {.streams = streams}); }).code;
  };
  EXPECT_EQ(code(2, 2, {}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(-1, 2, {}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(0, 0, {}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(0, 2, {.slotCount = 3}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(0, 2, {}, 0), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(0, 2, {}, 17), ErrorCode::InvalidArgument);
}

TEST(TcpHub, SaysWhereItCannotListen) {
  const auto outcome = outcomeOf([] { loopbackHub("192.0.2.1"); });
  EXPECT_EQ(outcome.code, ErrorCode::System);
  EXPECT_TRUE(contains(outcome.text, "192.0.2.1")) << outcome.text;
}

// The faster peer fills its ring before the slower has been told where it is.
TEST(TcpEndpoint, MessagesThatComeBeforeTheirAddressAreKept) {
  const RingLayout layout{.channels = 2, .slotCount = 8, .slotBytes = 16384};
  auto all = makeEndpoints(makeHubs(2), layout);
  all[0]->connect(1, all[1]->address(0));
  const EndpointAddress late = all[0]->address(1);
  for (int c = 0; c < 2; ++c)
    for (uint32_t i = 0; i < 8; ++i) publish(all[0]->sendRing(1, c), i * 2340, 100 * c + i);
  all[0]->flush();
  settleAll(all);
  all[1]->connect(0, {late.blob, {}});
  for (int c = 0; c < 2; ++c) {
    ReceiveRing& ring = all[1]->receiveRing(0, c);
    for (uint32_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); })) << i;
      EXPECT_TRUE(holds(ring, i * 2340, 100 * static_cast<uint64_t>(c) + i)) << i;
      ring.release();
    }
  }
  EXPECT_TRUE(progressUntil(all, [&] { return all[0]->sendRing(1, 0).inFlight() == 0; }));
}

// Four ranks that each send to the next one: each is joined to two others, and before it asks for
// rings to none. A connection within this process has two sockets.
TEST(TcpEndpoint, ConnectsWithWhomItTalksTo) {
  const size_t before = connectedSockets().size();
  constexpr int kRanks = 4;
  auto all = makeEndpoints(makeHubs(kRanks), {.channels = 3, .slotBytes = 1024});
  connectAll(all);
  EXPECT_EQ(connectedSockets().size(), before);
  for (int channel = 0; channel < 3; ++channel)
    for (int from = 0; from < kRanks; ++from) {
      const int to = (from + 1) % kRanks;
      ReceiveRing& ring = all[static_cast<size_t>(to)]->receiveRing(from, channel);
      publish(all[static_cast<size_t>(from)]->sendRing(to, channel), 100, 7);
      ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
      ASSERT_TRUE(holds(ring, 100, 7));
      ring.release();
    }
  EXPECT_TRUE(eventually([&] { return connectedSockets().size() == before + 2 * kRanks; }))
      << connectedSockets().size() - before;
}

TEST(TcpEndpoint, SharesItsHub) {
  const auto hub = loopbackHub();
  auto all = makeEndpoints({hub, hub, hub}, {.slotBytes = 1024});
  connectAll(all);
  for (uint32_t i = 0; i < 100; ++i)
    for (int from = 0; from < 3; ++from) {
      const int to = (from + 1) % 3;
      ReceiveRing& ring = all[static_cast<size_t>(to)]->receiveRing(from, 0);
      publish(all[static_cast<size_t>(from)]->sendRing(to, 0), i * 10, i);
      ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
      ASSERT_TRUE(holds(ring, i * 10, i));
      ring.release();
    }
}

// Who was given another key by another way, or none, is named at once.
TEST(TcpEndpoint, IsNotJoinedWithAnotherPreSharedKey) {
  const Hubs hubs = makeHubs(2);
  for (const std::string other : {"one", "other", ""}) {
    Endpoints all;
    for (int r = 0; r < 2; ++r)
      all.push_back(makeTcpEndpoint(hubs[static_cast<size_t>(r)], r, 2, {},
                                    {.preSharedKey = r == 0 ? "one" : other}));
    const auto outcome = outcomeOf([&] { connectAll(all); });
    if (other == "one") {
      ReceiveRing& ring = all[1]->receiveRing(0, 0);
      publish(all[0]->sendRing(1, 0), 100, 3);
      EXPECT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
    } else {
      EXPECT_EQ(outcome.code, ErrorCode::Refused);
      EXPECT_EQ(outcome.text,
                "rank 1 and rank 0 have different pre-shared keys "
                "(CommunicatorOptions::preSharedKey)");
    }
  }
}

// ---- flush()

// More is under way than sockets hold.
TEST(TcpFlush, WhatIsHandedOverArrivesWithoutTheSender) {
  for (const bool encrypts : {false, true})
    for (const auto& [slotBytes, bytes] : {std::pair<size_t, uint32_t>{4096, 3001},
                                           {65536, 65536},
                                           {4096, 40},
                                           {1 << 20, 1 << 20}}) {
      const uint32_t slots = slotBytes > 65536 ? 16U : slotBytes > 4096 ? 256U : 4096U;
      auto all =
          makeEndpoints(makeHubs(2), {.channels = 1, .slotCount = slots, .slotBytes = slotBytes},
                        {.encrypts = encrypts});
      connectAll(all);
      arriveWithoutTheSender(all, slots, bytes);
    }
}

TEST(TcpFlush, IsNeededForEachMessage) {
  auto all = makeEndpoints(makeHubs(2), {});
  connectAll(all);
  isNeededForEachMessage(all);
}

// ---- zero-copy

// A long payload is wanted until the receiver has it, for its connection may break; a short one is
// copied.
TEST(TcpZeroCopy, IsReturnedWhenTheReceiverHasIt) {
  auto all = makeEndpoints(makeHubs(2), {.slotCount = 4, .slotBytes = 1 << 20});
  connectAll(all);
  SendRing& ring = all[0]->sendRing(1, 0);
  const std::vector<std::byte> data(1 << 20, std::byte{5});
  ring.publishZeroCopy(data.data(), 1, 1, 4096);
  all[0]->flush();
  EXPECT_TRUE(ring.completed(1));
  ring.publishZeroCopy(data.data(), 5, 1, 1 << 20);
  all[0]->flush();
  EXPECT_FALSE(ring.completed(2));
  ReceiveRing& other = all[1]->receiveRing(0, 0);
  ASSERT_TRUE(progressUntil(all, [&] { return other.ready() && other.ready(1); }));
  ASSERT_TRUE(progressUntil(all, [&] { return ring.completed(2); }));
}

// ---- places

// A payload goes where it is wanted if it is the one that is expected there; any other lies in its
// slot, and the place is untouched.
TEST(TcpPlaces, GetTheMessageThatTheyExpect) {
  constexpr uint32_t kBytes = 60'000;
  for (const bool encrypts : {false, true}) {
    auto all =
        makeEndpoints(makeHubs(2), {.slotCount = 4, .slotBytes = 65536}, {.encrypts = encrypts});
    connectAll(all);
    SendRing& send = all[0]->sendRing(1, 0);
    ReceiveRing& receive = all[1]->receiveRing(0, 0);
    ASSERT_TRUE(receive.canPlace());
    struct Case {
      uint32_t bytes, callHash, operation;
      bool fits;
    };
    // publish() sends operation 1.
    const Case cases[] = {{kBytes, 7, 1, true},
                          {kBytes, 8, 1, false},
                          {kBytes, 7, 2, false},
                          {kBytes - 1, 7, 1, false},
                          {kBytes, 7, 1, true}};
    for (int repeat = 0; repeat < 3; ++repeat)
      for (const Case& each : cases) {
        std::vector<std::byte> wanted(kBytes, std::byte{0xee});
        receive.expect(wanted.data(), each.bytes, each.callHash, each.operation);
        receive.expect(nullptr, 1, 1, 1);  // the first word counts
        publish(send, kBytes, 7);
        ASSERT_TRUE(progressUntil(all, [&] { return receive.ready(); }));
        EXPECT_TRUE(holds(receive, kBytes, 7));
        EXPECT_EQ(receive.payload() == wanted.data(), each.fits);
        const std::byte found = each.fits ? std::byte{7} : std::byte{0xee};
        EXPECT_EQ(std::ranges::count(wanted, found), kBytes);
        receive.release();
        ASSERT_TRUE(progressUntil(all, [&] { return send.ready(); }));
      }
  }
}

/// Whether something is there, where a hub's thread may be writing.
[[gnu::no_sanitize_thread, gnu::noinline]] bool hasBegun(const std::vector<std::byte>& place) {
  return *static_cast<const volatile std::byte*>(place.data()) != std::byte{0};
}

// Their memory is the caller's again, though half of a message is there.
TEST(TcpPlaces, AreUntouchedAfterACancel) {
  constexpr uint32_t kBytes = 8 << 20;
  auto all = makeEndpoints(makeHubs(2), {.slotCount = 4, .slotBytes = kBytes});
  connectAll(all);
  SendRing& send = all[0]->sendRing(1, 0);
  ReceiveRing& receive = all[1]->receiveRing(0, 0);
  std::vector<std::byte> wanted(kBytes);
  receive.expect(wanted.data(), kBytes, 7, 1);
  publish(send, kBytes, 7);
  ASSERT_TRUE(progressUntil(all, [&] { return hasBegun(wanted); }));
  cancelZeroCopy(*all[1]);
  std::fill(wanted.begin(), wanted.end(), std::byte{0xee});
  settleAll(all);
  EXPECT_EQ(std::ranges::count(wanted, std::byte{0xee}), kBytes);
}

// ---- ends

// Whatever is under way, an endpoint goes at once; its hub serves others.
TEST(TcpEndpoint, GoesAtAnyMoment) {
  std::mt19937_64 random(testSeed());
  const Hubs hubs = makeHubs(2);
  const RingLayout layout{.channels = 2, .slotCount = 4, .slotBytes = 256 << 10};
  for (int round = 0; round < 60; ++round) {
    auto all = makeEndpoints(hubs, layout, {.encrypts = round % 2 == 0});
    connectAll(all);
    for (int message = 0; message < 8; ++message) {
      const size_t from = random() % 2;
      SendRing& ring =
          all[from]->sendRing(1 - static_cast<int>(from), static_cast<int>(random() % 2));
      if (ring.ready())
        publish(ring, static_cast<uint32_t>(random() % (layout.slotBytes + 1)), random());
      for (uint64_t polls = random() % 4; polls > 0; --polls) all[random() % 2]->progress();
    }
    const size_t first = random() % 2;
    all[first].reset();
    for (uint64_t polls = random() % 20; polls > 0; --polls) all[1 - first]->progress();
  }
  auto all = makeEndpoints(hubs, layout);
  connectAll(all);
  publish(all[0]->sendRing(1, 0), 100'000, 5);
  ASSERT_TRUE(progressUntil(all, [&] { return all[1]->receiveRing(0, 0).ready(); }));
  EXPECT_TRUE(holds(all[1]->receiveRing(0, 0), 100'000, 5));
}

// A rank that leaves has said so: nobody takes it for lost, and what it had published arrives, even
// to one that it has not been connected with.
TEST(TcpEndpoint, APeerThatLeavesIsNotLost) {
  auto hubs = makeHubs(3);
  auto all = makeEndpoints(hubs, {}, {.reconnect = std::chrono::milliseconds(200)});
  connectAll(all);
  for (const int to : {1, 2}) publish(all[0]->sendRing(to, 0), 500, 9);
  ReceiveRing& waiting = all[2]->receiveRing(0, 0);
  ASSERT_TRUE(progressUntil(all, [&] { return waiting.ready(); }));
  all[0].reset();
  hubs[0].reset();
  ReceiveRing& ring = all[1]->receiveRing(0, 0);
  ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
  EXPECT_TRUE(holds(ring, 500, 9));
  const auto end = base::Deadline::after(std::chrono::milliseconds(600));
  while (!end.passed())
    for (const size_t r : {1, 2}) EXPECT_NO_THROW(all[r]->progress());
  publish(all[1]->sendRing(0, 0), 10, 1);  // vanishes
  all[1]->flush();
  all[1]->drain([] { return false; });
}

// Two endpoints of each of four communicators, a thread each, on two hubs.
TEST(TcpHub, ServesManyThreadsAtOnce) {
  const auto fabric = tcpThreads();
  std::vector<std::thread> communicators;
  std::vector<std::vector<std::string>> problems(4);
  std::vector<Endpoints> all;
  Scenario scenario;
  scenario.layout = {.channels = 1, .slotCount = 4, .slotBytes = 16384};
  scenario.actors = [&](int rank) {
    Actors actors;
    for (const int from : {0, 1}) {
      const Stream stream{1 - rank, 0, 2'000, oddSizes(testSeed(), 16384),
                          testSeed() + uint64_t(from)};
      actors.push_back(from == rank ? sender(stream) : receiver(stream));
    }
    return actors;
  };
  for (size_t c = 0; c < problems.size(); ++c) {
    all.push_back(fabric->endpoints(2, scenario.layout));
    connectAll(all.back());
  }
  for (size_t c = 0; c < problems.size(); ++c)
    communicators.emplace_back(
        [&, c] { problems[c] = driveThreads(scenario, std::move(all[c]), [](int) {}); });
  for (std::thread& t : communicators) t.join();
  for (const auto& each : problems)
    for (const std::string& problem : each) EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace tutti::tests
