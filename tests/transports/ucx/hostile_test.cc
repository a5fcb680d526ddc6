// Messages that no correct rank sends, from a peer that speaks UCP itself: each is refused with the
// peer's name, or dropped where it names nobody; a seeded flood of nonsense harms no other endpoint
// of the same worker.

#include <gtest/gtest.h>

#include <random>

#include <tutti/error.h>
#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/ucx/fabrics.h"
#include "tests/transports/ucx/raw_ucp_peer.h"
#include "transports/ucx/address.h"
#include "transports/ucx/message.h"

namespace tutti::tests {
namespace {

using transports::RingLayout;
using transports::ucx::CreditEntry;
using transports::ucx::DataHeader;
using transports::ucx::Kind;
using transports::ucx::makeUcxEndpoint;
using transports::ucx::makeWorker;
using transports::ucx::NoticeHeader;
using transports::ucx::UcxAddressBlob;

constexpr RingLayout kLayout{.channels = 2, .slotCount = 4, .slotBytes = 4096};

// Rank 0, and whoever says to be rank 1.
class Victim {
 public:
  Victim()
      : worker_(makeWorker(overTcp())),
        peerWorker_(makeWorker(overTcp())),
        peer_(makeUcxEndpoint(peerWorker_, 1, 2, kLayout)),
        endpoint_(makeUcxEndpoint(worker_, 0, 2, kLayout)),
        others_(makeOthers()),
        address_(UcxAddressBlob::read(endpoint_->address(1).blob)),
        raw_(overTcp(), address_.worker) {
    // So that it has a ring to give credits for: with a rank 1 that says nothing itself.
    endpoint_->connect(1, peer_->address(0));
    auto& ring = endpoint_->sendRing(1, 0);
    ring.publish(1, 1, 0);
    // The handshake, which UCX 1.13 does not survive when it breaks.
    send(NoticeHeader{sink(), 0, 0}, {});
    endpoint_->flush();
    progressUntil([&] { return raw_.idle(); });
    const auto settled = base::Deadline::after(std::chrono::milliseconds(50));
    progressUntil([&] { return settled.passed(); });
  }

  Endpoint& endpoint() { return *endpoint_; }
  RawUcpPeer& raw() { return raw_; }
  uint64_t sink() const { return address_.sink; }
  DataHeader data(uint32_t number, uint32_t bytes) const {
    return {.sink = sink(), .number = number, .callHash = 1, .operation = 1, .bytes = bytes};
  }
  void send(const DataHeader& header, size_t bytes, unsigned flags = 0) {
    raw_.send(static_cast<unsigned>(Kind::Data), base::bytesOf(header), base::Bytes(bytes), flags);
  }
  void send(const NoticeHeader& header, const std::vector<CreditEntry>& credits,
            unsigned flags = UCP_AM_SEND_FLAG_EAGER) {
    const auto* begin = reinterpret_cast<const std::byte*>(credits.data());
    raw_.send(static_cast<unsigned>(Kind::Notice), base::bytesOf(header),
              base::Bytes(begin, begin + credits.size() * sizeof(CreditEntry)), flags);
  }
  /// Both sides for a while, or until `over`.
  void progressUntil(const std::function<bool()>& over) {
    const auto deadline = base::Deadline::after(kPatience);
    while (!over() && !deadline.passed()) {
      raw_.progress();
      peer_->progress();
      endpoint_->progress();
    }
  }
  /// A message of the other communicator comes through.
  bool othersWork() {
    others_[1]->sendRing(0, 0).publish(1, 1, 4096);
    auto& ring = others_[0]->receiveRing(1, 0);
    const bool arrived = eventually([&] {
      for (const auto& endpoint : others_) endpoint->progress();
      return ring.ready();
    });
    if (arrived) ring.release();
    return arrived;
  }
  /// What progress() throws once the message has come.
  Outcome outcome() {
    return outcomeOf([&] { progressUntil([] { return false; }); });
  }

 private:
  std::vector<std::unique_ptr<Endpoint>> makeOthers() const {
    std::vector<std::unique_ptr<Endpoint>> all;
    all.push_back(makeUcxEndpoint(worker_, 0, 2, kLayout));
    all.push_back(makeUcxEndpoint(peerWorker_, 1, 2, kLayout));
    connectAll(all);
    return all;
  }

  std::shared_ptr<transports::ucx::Worker> worker_, peerWorker_;
  std::unique_ptr<Endpoint> peer_, endpoint_;
  std::vector<std::unique_ptr<Endpoint>> others_;  // another communicator on the same workers
  UcxAddressBlob address_;
  RawUcpPeer raw_;
};

void expectRefused(const char* what, const std::function<void(Victim&)>& attack) {
  Victim victim;
  attack(victim);
  const Outcome outcome = victim.outcome();
  EXPECT_EQ(outcome.code, ErrorCode::Refused) << what << ": " << outcome.text;
  EXPECT_NE(outcome.text.find("rank 0 got a message from rank 1 over UCX"), std::string::npos)
      << what << ": " << outcome.text;
  EXPECT_EQ(victim.outcome().code, ErrorCode::Refused) << what << ": only once";
}

TEST(UcxHostile, WhatIsRightIsAccepted) {
  Victim victim;
  victim.send(victim.data(1, 4096), 4096);
  victim.send(victim.data(2, 0), 0);
  victim.send(victim.data(3, 4096), 4096, UCP_AM_SEND_FLAG_RNDV);
  victim.send(NoticeHeader{victim.sink(), 1, 0}, {{0, 1}});
  auto& ring = victim.endpoint().receiveRing(1, 0);
  for (int i = 0; i < 3; ++i) {
    victim.progressUntil([&] { return ring.ready(); });
    ASSERT_TRUE(ring.ready()) << i;
    ring.release();
  }
  victim.progressUntil([&] { return victim.endpoint().sendRing(1, 0).inFlight() == 0; });
  EXPECT_EQ(victim.endpoint().sendRing(1, 0).inFlight(), 0u);
}

TEST(UcxHostile, ImpossibleMessagesAreRefused) {
  const auto changed = [](const std::function<void(DataHeader&)>& change, uint32_t bytes = 64) {
    return [=](Victim& v) {
      DataHeader header = v.data(1, bytes);
      change(header);
      v.send(header, bytes);
    };
  };
  expectRefused("number 0", changed([](DataHeader& h) { h.number = 0; }));
  expectRefused("number beyond the ring", changed([](DataHeader& h) { h.number = 5; }));
  expectRefused("far number", changed([](DataHeader& h) { h.number = 1U << 31; }));
  expectRefused("channel", changed([](DataHeader& h) { h.channel = 2; }));
  expectRefused("far channel", changed([](DataHeader& h) { h.channel = UINT32_MAX; }));
  expectRefused("more bytes than came", changed([](DataHeader& h) { h.bytes = 65; }));
  expectRefused("fewer bytes than came", changed([](DataHeader& h) { h.bytes = 0; }));
  expectRefused("more than a slot", changed([](DataHeader&) {}, 4097));
  expectRefused("far more than a slot", changed([](DataHeader&) {}, 1 << 20));
  expectRefused("credit for what was not sent", changed([](DataHeader& h) { h.credit = 2; }));
  expectRefused("credit on a ring that was not used", changed([](DataHeader& h) {
                  h.channel = 1;
                  h.credit = 1;
                }));
  for (const unsigned flags : {0U, unsigned{UCP_AM_SEND_FLAG_RNDV}})
    expectRefused("the same twice", [=](Victim& v) {
      v.send(v.data(2, 64), 64, flags);
      v.send(v.data(2, 64), 64, flags);
    });
  expectRefused("short header", [](Victim& v) {
    base::Bytes header = base::bytesOf(v.data(1, 0));
    header.pop_back();
    v.raw().send(static_cast<unsigned>(Kind::Data), header, {});
  });
}

// What would have to be copied to memory that the host may not be able to write is refused.
TEST(UcxHostile, DirectMessagesThatCannotBeFetchedAreRefused) {
  const auto victimOf = [](const std::shared_ptr<base::Bytes>& places) {
    auto victim = std::make_unique<Victim>();
    EXPECT_TRUE(victim->endpoint().goDirect(1, 0, {places->data(), 4096, 1000, places}));
    return victim;
  };
  const auto places = std::make_shared<base::Bytes>(4 * 4096);
  auto victim = victimOf(places);
  victim->send(victim->data(1, 999), 999, UCP_AM_SEND_FLAG_EAGER);
  victim->send(victim->data(2, 1000), 1000, UCP_AM_SEND_FLAG_RNDV);
  auto& ring = victim->endpoint().receiveRing(1, 0);
  victim->progressUntil([&] { return ring.ready(1); });
  EXPECT_TRUE(ring.ready());
  EXPECT_TRUE(ring.ready(1));
  for (const uint32_t bytes : {1000U, 4096U}) {
    victim = victimOf(places);
    victim->send(victim->data(1, bytes), bytes, UCP_AM_SEND_FLAG_EAGER);
    EXPECT_EQ(victim->outcome().code, ErrorCode::Refused) << bytes;
  }
  EXPECT_EQ(*places, base::Bytes(4 * 4096)) << "the peer sent zeros";
}

TEST(UcxHostile, ImpossibleNoticesAreRefused) {
  const auto notice = [](uint32_t count, uint32_t goodbye, std::vector<CreditEntry> credits,
                         unsigned flags = UCP_AM_SEND_FLAG_EAGER) {
    return [=](Victim& v) { v.send(NoticeHeader{v.sink(), count, goodbye}, credits, flags); };
  };
  expectRefused("goodbye 2", notice(0, 2, {}));
  expectRefused("fewer credits than it says", notice(2, 0, {{0, 0}}));
  expectRefused("more credits than it says", notice(0, 0, {{0, 0}}));
  expectRefused("very many credits", notice(UINT32_MAX, 0, {{0, 0}}));
  expectRefused("more credits than channels are possible",
                notice(65, 0, std::vector<CreditEntry>(65)));
  expectRefused("credit for what was not sent", notice(1, 0, {{0, 2}}));
  expectRefused("far credit", notice(1, 0, {{0, 1U << 30}}));
  expectRefused("channel", notice(1, 0, {{2, 0}}));
  expectRefused("ring that was not used", notice(1, 0, {{1, 1}}));
  expectRefused("rendezvous", notice(1, 0, {{0, 0}}, UCP_AM_SEND_FLAG_RNDV));
  expectRefused("long header", [](Victim& v) {
    base::Bytes header = base::bytesOf(NoticeHeader{v.sink(), 0, 0});
    header.resize(60);
    v.raw().send(static_cast<unsigned>(Kind::Notice), header, {});
  });
}

TEST(UcxHostile, WhatIsForNobodyIsDropped) {
  Victim victim;
  DataHeader stranger = victim.data(1, 100);
  stranger.sink ^= 1;
  victim.send(stranger, 100);
  victim.send(stranger, 100, UCP_AM_SEND_FLAG_RNDV);
  victim.send(NoticeHeader{victim.sink() + 1, 0, 7}, {});
  victim.raw().send(static_cast<unsigned>(Kind::Data), {}, base::Bytes(100));
  victim.raw().send(static_cast<unsigned>(Kind::Notice), base::Bytes(3), {});
  victim.send(victim.data(1, 100), 100);  // the last one is right
  auto& ring = victim.endpoint().receiveRing(1, 0);
  victim.progressUntil([&] { return ring.ready() && victim.raw().idle(); });
  EXPECT_TRUE(ring.ready());
  EXPECT_TRUE(victim.raw().idle()) << "a rendezvous with nobody was not answered";
}

// ---- nonsense

base::Bytes noise(std::mt19937_64& random, size_t bytes) {
  base::Bytes all(bytes);
  for (std::byte& b : all) b = static_cast<std::byte>(random());
  return all;
}

struct Nonsense {
  unsigned id = 0, flags = 0;
  base::Bytes header, data;
};

// Something right with a few bytes changed, or noise altogether.
Nonsense nonsense(std::mt19937_64& random, const Victim& victim) {
  Nonsense n;
  n.id = static_cast<unsigned>(random() % 4);
  n.data = noise(random, random() % 3 == 0 ? random() % 20'000 : random() % 64);
  n.flags = std::array<unsigned, 3>{0, UCP_AM_SEND_FLAG_EAGER, UCP_AM_SEND_FLAG_RNDV}[random() % 3];
  if (random() % 4 == 0) {
    n.header = noise(random, random() % 64);
    return n;
  }
  if (random() % 2 == 0)
    n.header = base::bytesOf(
        victim.data(static_cast<uint32_t>(random() % 6), static_cast<uint32_t>(n.data.size())));
  else
    n.header =
        base::bytesOf(NoticeHeader{victim.sink(), static_cast<uint32_t>(n.data.size() / 8), 0});
  for (uint64_t changes = random() % 3; changes > 0; --changes)
    n.header[random() % n.header.size()] = static_cast<std::byte>(random());
  return n;
}

TEST(UcxHostile, NonsenseIsRefusedOrDroppedAndHarmsNobodyElse) {
  std::mt19937_64 random(testSeed());
  int refused = 0;
  for (int round = 0; round < 40; ++round) {
    Victim victim;
    for (int message = 0; message < 60; ++message) {
      Nonsense n = nonsense(random, victim);
      victim.raw().send(n.id, std::move(n.header), std::move(n.data), n.flags);
      try {
        victim.endpoint().progress();
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::Refused) << e.what();
        ++refused;
      }
      victim.raw().progress();
    }
    ASSERT_TRUE(victim.othersWork());
  }
  EXPECT_GT(refused, 0) << "nothing of it reached anybody";
}

}  // namespace
}  // namespace tutti::tests
