// What is particular to endpoints over UCX; what every transport must do is tested by the
// conformance suite.

#include "transports/ucx/endpoint.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include <tutti/error.h>
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/flush.h"
#include "tests/transports/ucx/endpoints.h"
#include "transports/ucx/address.h"
#include "transports/ucx/settings.h"
#include "transports/ucx/worker.h"
#include "transports/ucx/worker_sockets.h"

namespace tutti::tests {
namespace {

using transports::EndpointAddress;
using transports::ReceiveRing;
using transports::RingLayout;
using transports::SendRing;
using transports::ucx::makeUcxEndpoint;
using transports::ucx::makeWorker;
using transports::ucx::UcxAddressBlob;
using transports::ucx::WorkerOptions;

// ---- set-up

TEST(UcxAddress, SaysWhyItIsRefused) {
  const auto workers = makeWorkers(2);
  const auto refusal = [&](const std::function<void(UcxAddressBlob&)>& change) {
    auto all = makeEndpoints(workers, {});
    UcxAddressBlob blob = UcxAddressBlob::read(all[1]->address(0).blob);
    change(blob);
    const auto outcome = outcomeOf([&] { all[0]->connect(1, {blob.write(), {}}); });
    EXPECT_EQ(outcome.code, ErrorCode::Refused) << outcome.text;
    return outcome.text;
  };
  EXPECT_EQ(refusal([](UcxAddressBlob& b) { b.size = 3; }),
            "an address from rank 1 for rank 0 of 3 came as that of rank 1 for rank 0 of 2");
  EXPECT_EQ(refusal([](UcxAddressBlob& b) { b.from = 0; }),
            "an address from rank 0 for rank 0 of 2 came as that of rank 1 for rank 0 of 2");
  EXPECT_NE(refusal([](UcxAddressBlob& b) { b.layout.slotCount = 64; }).find("64 slots of"),
            std::string::npos);
  EXPECT_NE(refusal([](UcxAddressBlob& b) { b.sources.resize(1025); }).find("sources"),
            std::string::npos);
  auto all = makeEndpoints(workers, {});
  EXPECT_EQ(UcxAddressBlob::read(all[1]->address(0).blob).sources, workers[1]->sources());
  EndpointAddress garbled = all[1]->address(0);
  garbled.blob[garbled.blob.size() / 2] ^= std::byte{1};
  EXPECT_EQ(outcomeOf([&] { all[0]->connect(1, std::move(garbled)); }).text,
            "a UCX address came garbled: its digest is wrong");
}

TEST(UcxEndpoint, ImpossibleRanksAndLayoutsAreRefused) {
  const auto worker = makeWorker(overTcp());
  const auto code = [&](int rank, int size, const RingLayout& layout) {
    return outcomeOf([&] { makeUcxEndpoint(worker, rank, size, layout); }).code;
  };
  EXPECT_EQ(code(2, 2, {}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(-1, 2, {}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(0, 0, {}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(0, 2, {.slotCount = 3}), ErrorCode::InvalidArgument);
}

TEST(UcxWorker, WithoutADeviceTheErrorSaysSo) {
  const auto expectNone = [](const WorkerOptions& options, const std::string& begin) {
    const auto outcome = outcomeOf([&] { makeWorker(options); });
    EXPECT_EQ(outcome.code, ErrorCode::System);
    for (const std::string& part : {begin, std::string("; without settings it has here "),
                                    std::string("lo"), std::string("TUTTI_LOG=info")})
      EXPECT_NE(outcome.text.find(part), std::string::npos) << part << " in: " << outcome.text;
  };
  const WorkerOptions none{.devices = "none"}, between{.devices = "none", .betweenHosts = true};
  expectNone({.devices = "none", .tls = "tcp"},
             "UCX finds no device for transports tcp and device none;");
  EXPECT_NO_THROW(makeWorker(none));  // it has shared memory
  expectNone(between, "UCX finds no device that leads to other hosts for device none;");
  {
    const Variable devices("UCX_NET_DEVICES", "none");
    expectNone({.tls = "tcp"}, "UCX finds no device for UCX_NET_DEVICES=none and transports tcp;");
  }
  {
    const Variable tls("UCX_TLS", "");
    expectNone(none, "UCX finds no device for UCX_TLS= and device none;");
  }
  const Variable tls("UCX_TLS", "sm"), devices("UCX_NET_DEVICES", "");
  expectNone({.betweenHosts = true},
             "UCX finds no device that leads to other hosts for UCX_TLS=sm and UCX_NET_DEVICES=;");
}

// UCX refuses to send longer segments than it takes in.
TEST(UcxWorker, SendsSegmentsAsLongAsItTakes) {
  for (const char* const variable : {"UCX_TCP_RX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE"})
    for (const char* const size : {"64K", "1M"}) {
      const Variable set(variable, size);
      EXPECT_NO_THROW(makeWorkers(1)) << variable << "=" << size;
    }
}

// Peers put it into their errors.
TEST(UcxWorker, TellsWhatItGoesBy) {
  const auto blobOf = [](const WorkerOptions& options) {
    return UcxAddressBlob::read(makeUcxEndpoint(makeWorker(options), 0, 2, {})->address(1).blob);
  };
  EXPECT_EQ(blobOf({.devices = "lo"}).devices, "lo");
  EXPECT_EQ(blobOf({.devices = "none"}).devices, "no network device");
  {
    const Variable devices("UCX_NET_DEVICES", "lo,none\n");
    EXPECT_EQ(blobOf({.tls = "sm"}).devices, "no network device (UCX_NET_DEVICES=lo,none?)");
    const Variable tls("UCX_TLS", "all");
    EXPECT_EQ(blobOf({}).devices, "lo (UCX_TLS=all, UCX_NET_DEVICES=lo,none?)");
  }
  UcxAddressBlob longest = blobOf({.devices = "lo"});
  longest.devices = std::string(100'000, 'x');
  EXPECT_EQ(UcxAddressBlob::read(longest.write()).devices, std::string(512, 'x'));
}

TEST(UcxWorker, KnowsWhichSettingsLeaveRdmaAndTcp) {
  using transports::ucx::allowsDevice, transports::ucx::allowsRdma, transports::ucx::allowsTcp;
  EXPECT_TRUE(allowsTcp({}) && allowsRdma({}) && allowsDevice({}, "mlx5_1"));
  for (const char* tls : {"all", "tcp", "self,tcp", "^ib", "^sm"})
    EXPECT_TRUE(allowsTcp(tls)) << tls;
  for (const char* tls : {"", "sm", "rc,self", "^tcp", "^ib,tcp"})
    EXPECT_FALSE(allowsTcp(tls)) << tls;
  for (const char* tls : {"all", "ib", "rc_v,self", "tcp,ud", "self,dc_x", "\\rc_verbs", "^tcp"})
    EXPECT_TRUE(allowsRdma(tls)) << tls;
  for (const char* tls : {"", "tcp,self", "sm", "^ib", "^tcp,ib", "cuda_copy,tcp"})
    EXPECT_FALSE(allowsRdma(tls)) << tls;
  for (const char* devices : {"all", "mlx5_1", "eth0,mlx5_1:1", "^eth0"})
    EXPECT_TRUE(allowsDevice(devices, "mlx5_1")) << devices;
  for (const char* devices : {"", "eth0", "mlx5_10:1", "mlx5_0:1,lo"})
    EXPECT_FALSE(allowsDevice(devices, "mlx5_1")) << devices;
}

// The faster peer fills its ring before the slower has been told where it is.
TEST(UcxEndpoint, MessagesThatComeBeforeTheirAddressAreKept) {
  const RingLayout layout{.channels = 2, .slotCount = 8, .slotBytes = 16384};
  const Workers workers = makeWorkers(2);
  auto others = makeEndpoints(workers, layout);  // another communicator, so that its host may come
  connectAll(others);
  auto all = makeEndpoints(workers, layout);
  all[0]->connect(1, all[1]->address(0));
  const EndpointAddress late = all[0]->address(1);
  for (int c = 0; c < 2; ++c)
    for (uint32_t i = 0; i < 8; ++i) publish(all[0]->sendRing(1, c), i * 2340, 100 * c + i);
  all[0]->flush();
  settleAll(all);
  EXPECT_FALSE(all[0]->sendRing(1, 0).ready());
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

TEST(UcxEndpoint, RanksMayShareAWorker) {
  const auto worker = makeWorker(overTcp());
  auto all = makeEndpoints({worker, worker, worker}, {.slotBytes = 1024});
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

size_t connections(const Workers& workers, size_t rank) {
  const auto lock = workers[rank]->lock();
  return workers[rank]->connections();
}

// Five ranks that each send to the next one, as in a ring, in all channels and as members of two
// communicators: each is joined to two others, and before it asks for rings to none.
TEST(UcxEndpoint, ConnectsOnceWithWhomItTalksTo) {
  constexpr size_t kRanks = 5;
  constexpr int kChannels = 3;
  const RingLayout layout{.channels = kChannels, .slotBytes = 1024};
  const Workers workers = makeWorkers(kRanks);
  for (const bool first : {true, false}) {
    auto all = makeEndpoints(workers, layout);
    connectAll(all);
    for (size_t r = 0; r < kRanks; ++r) EXPECT_EQ(connections(workers, r), first ? 0U : 2U);
    for (int channel = 0; channel < kChannels; ++channel)
      for (size_t from = 0; from < kRanks; ++from) {
        const size_t to = (from + 1) % kRanks;
        ReceiveRing& ring = all[to]->receiveRing(static_cast<int>(from), channel);
        publish(all[from]->sendRing(static_cast<int>(to), channel), 100, from);
        ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
        ASSERT_TRUE(holds(ring, 100, from));
        ring.release();
      }
    for (size_t r = 0; r < kRanks; ++r) EXPECT_EQ(connections(workers, r), 2U) << "rank " << r;
  }
}

/// What rank 0 says of a ring with rank 1 in a process that may have `more` descriptors than it
/// has.
Outcome outcomeWithMore(const Endpoints& all, uint64_t more) {
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  const rlimit few{static_cast<rlim_t>(open) + more, before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  Outcome outcome = outcomeOf([&] { all[0]->sendRing(1, 0); });
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  return outcome;
}

// Eight for the connection, and one for each peer that may still connect, however many
// communicators it shares.
TEST(UcxEndpoint, LeavesDescriptorsToWhoMayConnect) {
  const Workers workers = makeWorkers(4);
  const auto refused = [](const Outcome& outcome, const char* forPeers) {
    EXPECT_EQ(outcome.code, ErrorCode::System) << outcome.text;
    EXPECT_NE(outcome.text.find("rank 0 cannot reach rank 1: a connection needs up to 8 "
                                "descriptors, and those that peers begin up to " +
                                std::string(forPeers) + "; this process has "),
              std::string::npos)
        << outcome.text;
  };
  {
    auto one = makeEndpoints(workers, {}), other = makeEndpoints(workers, {});
    connectAll(one);
    connectAll(other);
    refused(outcomeWithMore(one, 10), "3");
    EXPECT_EQ(outcomeWithMore(one, 11).text, "no error");
    settleAll(one);
  }
  auto pair = makeEndpoints({workers[2], workers[3]}, {});  // who has gone does not count
  connectAll(pair);
  refused(outcomeWithMore(pair, 8), "1");
  EXPECT_EQ(outcomeWithMore(pair, 9).text, "no error");
  settleAll(pair);
}

// ---- flush()

// Connections are made, long messages fetched, and credits told. More is under way than sockets
// hold.
TEST(UcxFlush, WhatIsHandedOverArrivesWithoutTheSender) {
  for (const auto& [slotBytes, bytes] : {std::pair<size_t, uint32_t>{4096, 4096},
                                         {4096, 3001},
                                         {65536, 65536},
                                         {4096, 40},
                                         {1 << 20, 1 << 20}}) {
    const uint32_t slots = slotBytes > 65536 ? 16U : slotBytes > 4096 ? 512U : 8192U;
    auto all =
        makeEndpoints(makeWorkers(2), {.channels = 1, .slotCount = slots, .slotBytes = slotBytes});
    connectAll(all);
    arriveWithoutTheSender(all, slots, bytes);
  }
}

TEST(UcxFlush, IsNeededForEachMessage) {
  auto all = makeEndpoints(makeWorkers(2), {});
  connectAll(all);
  isNeededForEachMessage(all);
}

// ---- ends

// Whatever is under way, an endpoint goes at once; its worker serves others, and what comes for it
// later is dropped.
TEST(UcxEndpoint, GoesAtAnyMoment) {
  std::mt19937_64 random(testSeed());
  const auto workers = makeWorkers(2);
  const RingLayout layout{.channels = 2, .slotCount = 4, .slotBytes = 256 << 10};
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 60; ++round) {
    auto all = makeEndpoints(workers, layout);
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
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  auto all = makeEndpoints(workers, layout);
  connectAll(all);
  publish(all[0]->sendRing(1, 0), 100'000, 5);
  ASSERT_TRUE(progressUntil(all, [&] { return all[1]->receiveRing(0, 0).ready(); }));
  EXPECT_TRUE(holds(all[1]->receiveRing(0, 0), 100'000, 5));
}

// A rank that leaves has said so: nobody takes it for lost, and what it had published arrives.
TEST(UcxEndpoint, APeerThatLeavesIsNotLost) {
  auto workers = makeWorkers(3);
  auto all = makeEndpoints(workers, {});
  connectAll(all);
  for (const int to : {1, 2}) publish(all[0]->sendRing(to, 0), 500, 9);
  ReceiveRing& waiting = all[2]->receiveRing(0, 0);
  ReceiveRing& ring = all[1]->receiveRing(0, 0);
  ASSERT_TRUE(progressUntil(all, [&] { return waiting.ready(); }));
  all[0].reset();
  workers[0].reset();
  ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
  EXPECT_TRUE(holds(ring, 500, 9));
  for (int i = 0; i < 2000; ++i) EXPECT_NO_THROW(all[1 + i % 2]->progress());
  publish(all[1]->sendRing(0, 0), 10, 1);  // vanishes
  all[1]->flush();
}

// Two endpoints of each of four communicators, a thread each, on two workers.
TEST(UcxWorker, ServesManyThreadsAtOnce) {
  const auto fabric = ucxThreads();
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
