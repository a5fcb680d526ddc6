#include "tests/transports/conformance.h"

#include <algorithm>
#include <cstring>

#include <tutti/error.h>
#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/support/leftovers.h"

namespace tutti::tests {

using transports::EndpointAddress;
using transports::ReceiveRing;
using transports::RingLayout;
using transports::SendRing;

// The seed is drawn here, before a fabric forks ranks, which must all have the same.
TransportTest::TransportTest() : fabric_(GetParam()()) { testSeed(); }

void TransportTest::run(const Scenario& scenario) {
  const auto problems = fabric_->run(scenario);
  for (size_t r = 0; r < problems.size(); ++r)
    EXPECT_EQ(problems[r], "") << "rank " << r << "\n" << fabric_->describe();
}

namespace {

// A stream from `from` to `to`, as the end at `rank` sees it.
Stream streamBetween(int rank, int from, int to, int channel, uint64_t messages,
                     std::function<uint32_t(uint64_t)> bytes) {
  return {rank == from ? to : from, channel, messages, std::move(bytes),
          testSeed() + 1'000'000 * static_cast<uint64_t>(from) + 1000 * static_cast<uint64_t>(to) +
              static_cast<uint64_t>(channel)};
}

// Everybody streams to everybody on all channels.
Actors fullMesh(int rank, const Scenario& s, uint64_t messages) {
  Actors actors;
  for (int peer = 0; peer < s.size; ++peer)
    for (int c = 0; peer != rank && c < s.layout.channels; ++c) {
      const auto sizes = oddSizes(testSeed() + static_cast<uint64_t>(c), s.layout.slotBytes);
      actors.push_back(sender(streamBetween(rank, rank, peer, c, messages, sizes)));
      actors.push_back(receiver(streamBetween(rank, peer, rank, c, messages, sizes)));
    }
  return actors;
}

TEST_P(TransportTest, HundredThousandMessagesOfOddSizesInOrder) {
  Scenario s;
  s.actors = [&](int rank) {
    const auto stream = streamBetween(rank, 0, 1, 0, testMessages(100'000),
                                      oddSizes(testSeed(), s.layout.slotBytes));
    Actors actors;
    actors.push_back(rank == 0 ? sender(stream) : receiver(stream));
    return actors;
  };
  run(s);
}

TEST_P(TransportTest, BothDirectionsAtOnce) {
  Scenario s;
  s.actors = [&](int rank) { return fullMesh(rank, s, testMessages(5'000)); };
  run(s);
}

TEST_P(TransportTest, ZeroCopyPayloadsAreReadNoMoreWhenCompleted) {
  Scenario s;
  s.actors = [&](int rank) {
    const auto stream = streamBetween(rank, 0, 1, 0, testMessages(20'000),
                                      oddSizes(testSeed(), s.layout.slotBytes));
    const auto back = streamBetween(rank, 1, 0, 0, testMessages(20'000), always(4096));
    Actors actors;
    actors.push_back(rank == 0 ? zeroCopySender(stream) : receiver(stream));
    actors.push_back(rank == 1 ? zeroCopySender(back) : receiver(back));
    return actors;
  };
  run(s);
}

TEST_P(TransportTest, NothingButEmptyMessages) {
  Scenario s;
  s.actors = [&](int rank) {
    const auto stream = streamBetween(rank, 1, 0, 0, testMessages(10'000), always(0));
    Actors actors;
    actors.push_back(rank == 1 ? sender(stream) : receiver(stream));
    return actors;
  };
  run(s);
}

TEST_P(TransportTest, AMessageLargerThanAllSlotsGoesInPieces) {
  for (const uint64_t bytes : {uint64_t{1} << 20, (uint64_t{1} << 20) + 13, uint64_t{4097}}) {
    Scenario s;
    s.layout.slotCount = 2;
    s.actors = [&](int rank) {
      Actors actors;
      actors.push_back(rank == 0 ? fragmentSender(1, bytes, testSeed())
                                 : fragmentReceiver(0, bytes, testSeed()));
      return actors;
    };
    run(s);
  }
}

TEST_P(TransportTest, ManyChannelsAtOnce) {
  Scenario s;
  s.layout.channels = 16;
  s.layout.slotBytes = 512;
  s.actors = [&](int rank) { return fullMesh(rank, s, testMessages(500)); };
  run(s);
}

TEST_P(TransportTest, FullMeshOfEightRanks) {
  Scenario s;
  s.size = 8;
  s.layout.channels = 2;
  s.layout.slotBytes = 1024;
  s.actors = [&](int rank) { return fullMesh(rank, s, testMessages(200)); };
  run(s);
}

TEST_P(TransportTest, SmallestSlots) {
  Scenario s;
  s.layout = {.channels = 1, .slotCount = 2, .slotBytes = 64};
  s.actors = [&](int rank) { return fullMesh(rank, s, testMessages(2'000)); };
  run(s);
}

// Rank 1 takes some messages and vanishes: by SIGKILL, by the destruction of its endpoint, or by
// the network's decision. Ranks 0 and 2 go on, and rank 0 stays stuck on the full ring, unharmed.
// Where the transport reports the death, it does so once.
TEST_P(TransportTest, APeerDiesAndTheOthersGoOn) {
  constexpr uint64_t kTaken = 25;
  Scenario s;
  s.size = 3;
  s.departs = 1;
  s.actors = [&](int rank) {
    Actors actors;
    if (rank == 1) {
      actors.push_back(departure(0, 0, kTaken));
      return actors;
    }
    // Rank 1 gets as many as it takes, however late it begins; credits of the last ones may be lost
    // with it.
    if (rank == 0) actors.push_back(flood(1, 0, kTaken, kTaken + s.layout.slotCount));
    const auto sizes = oddSizes(testSeed(), s.layout.slotBytes);
    actors.push_back(sender(streamBetween(rank, rank, 2 - rank, 0, testMessages(5'000), sizes)));
    actors.push_back(receiver(streamBetween(rank, 2 - rank, rank, 0, testMessages(5'000), sizes)));
    return actors;
  };
  run(s);
}

TEST_P(TransportTest, APeerThatNeverReadsStopsOnlyItsOwnRing) {
  Scenario s;
  s.layout.channels = 2;
  s.actors = [&](int rank) {
    Actors actors;
    if (rank == 0) actors.push_back(flood(1, 1, s.layout.slotCount, s.layout.slotCount));
    const auto stream =
        streamBetween(rank, 0, 1, 0, testMessages(5'000), oddSizes(testSeed(), s.layout.slotBytes));
    actors.push_back(rank == 0 ? sender(stream) : receiver(stream));
    return actors;
  };
  run(s);
}

TEST_P(TransportTest, BackPressure) {
  for (const uint32_t slots : {2u, 4u, 32u}) {
    auto all = fabric_->endpoints(2, {.channels = 1, .slotCount = slots, .slotBytes = 64});
    connectAll(all);
    SendRing& send = all[0]->sendRing(1, 0);
    ReceiveRing& receive = all[1]->receiveRing(0, 0);
    const auto fill = [&] {
      uint32_t sent = 0;
      for (; send.ready() && sent <= slots; ++sent) send.publish(0, 0, 64);
      fabric_->settle(all);
      return sent;
    };
    // What is on its way comes, be the machine as slow as it may.
    const auto becomes = [&](auto condition) {
      const auto deadline = base::Deadline::after(kPatience);
      while (!condition() && !deadline.passed()) fabric_->settle(all);
      return condition();
    };
    EXPECT_EQ(fill(), slots);
    EXPECT_EQ(fill(), 0u);
    EXPECT_EQ(send.inFlight(), slots);
    ASSERT_TRUE(becomes([&] { return receive.ready(); }));
    receive.release();
    EXPECT_TRUE(becomes([&] { return send.ready(); }));
    EXPECT_EQ(fill(), 1u);
    for (uint32_t i = 0; i < slots; ++i) {
      ASSERT_TRUE(becomes([&] { return receive.ready(); })) << i << " of " << slots;
      receive.release();
    }
    EXPECT_FALSE(receive.ready());
    EXPECT_TRUE(becomes([&] { return send.inFlight() == 0; }));
    EXPECT_EQ(fill(), slots);
  }
}

// ---- direct messages

// Both ends of one ring, with places for direct messages beside the slots of the second. Whatever
// nobody has written holds kUntouched.
class DirectRing {
 public:
  static constexpr size_t kLeast = 1000, kSlotBytes = 4096, kStride = kSlotBytes + 128;
  static constexpr uint32_t kSlots = 4;
  static constexpr std::byte kUntouched{0xee};

  explicit DirectRing(Fabric& fabric)
      : fabric_(fabric),
        all_(fabric.endpoints(2, {.channels = 1, .slotCount = kSlots, .slotBytes = kSlotBytes})) {
    connectAll(all_);
    for (size_t r = 0; r < 2; ++r) {
      places_[r] = std::make_shared<std::vector<std::byte>>(kSlots * kStride, kUntouched);
      isDirect_[r] = all_[r]->goDirect(1 - static_cast<int>(r), 0,
                                       {places_[r]->data(), kStride, kLeast, places_[r]});
    }
  }
  Endpoint& endpoint(size_t rank) { return *all_[rank]; }
  bool isDirect(size_t rank) const { return isDirect_[rank]; }
  // Sends a message zero-copy, which the other end takes; what is wrong with it.
  std::string pass(uint32_t bytes) {
    SendRing& send = all_[0]->sendRing(1, 0);
    ReceiveRing& receive = all_[1]->receiveRing(0, 0);
    if (!becomes([&] { return send.ready(); })) return "no slot is free";
    const uint32_t number = send.sent() + 1;
    std::byte* const place = places_[1]->data() + (number - 1) % kSlots * kStride;
    std::fill_n(place, kStride, kUntouched);
    std::fill_n(payloadOf(receive.slot(), kSlotBytes), kSlotBytes, kUntouched);
    std::vector<std::byte> zeroCopy(bytes, static_cast<std::byte>(number));
    send.publishZeroCopy(zeroCopy.data(), number, number, bytes);
    if (!becomes([&] { return receive.ready() && send.completed(number); }))
      return "it is not there";
    std::byte* const slot = payloadOf(receive.slot(), kSlotBytes);
    const size_t inPlace = bytes >= kLeast ? bytes : 0;
    const size_t inSlot = bytes >= kLeast || bytes <= transports::kInlineBytes ? 0 : bytes;
    if (receive.slot()->bytes != bytes || receive.slot()->callHash != number) return "its header";
    if (!holds(place, inPlace, number, kStride)) return "its place";
    if (!holds(slot, inSlot, number, kSlotBytes)) return "its slot";
    receive.release();
    return {};
  }
  // Takes the places back, and then sends to them; what is wrong.
  std::string passAfterCancel() {
    if (!becomes([&] { return all_[1]->cancelZeroCopy(); })) return "they are not given back";
    std::fill(places_[1]->begin(), places_[1]->end(), kUntouched);
    SendRing& send = all_[0]->sendRing(1, 0);
    std::vector<std::byte> zeroCopy(kSlotBytes);
    send.publishZeroCopy(zeroCopy.data(), 1, 1, kSlotBytes);
    if (!becomes([&] { return send.completed(send.sent()); })) return "its sender is kept waiting";
    return holds(places_[1]->data(), 0, 0, places_[1]->size()) ? "" : "it is there";
  }

 private:
  static bool holds(const std::byte* at, size_t bytes, uint32_t number, size_t room) {
    return std::all_of(at, at + bytes,
                       [&](std::byte b) { return b == static_cast<std::byte>(number); }) &&
           std::all_of(at + bytes, at + room, [](std::byte b) { return b == kUntouched; });
  }
  bool becomes(const std::function<bool()>& condition) {
    const auto deadline = base::Deadline::after(kPatience);
    while (!condition() && !deadline.passed()) fabric_.settle(all_);
    return condition();
  }

  Fabric& fabric_;
  std::vector<std::unique_ptr<Endpoint>> all_;
  std::shared_ptr<std::vector<std::byte>> places_[2];
  bool isDirect_[2] = {};
};

// Sizes on both sides of the least, in turns, over all slots.
TEST_P(TransportTest, DirectMessagesLieBesideTheSlots) {
  DirectRing ring(*fabric_);
  const std::string way = ring.endpoint(0).name(1);
  EXPECT_EQ(ring.isDirect(0), way == "ucx" || way == "sim") << way;
  EXPECT_EQ(ring.isDirect(0), ring.isDirect(1));
  if (!ring.isDirect(0)) return;
  const auto sizes = oddSizes(testSeed(), DirectRing::kSlotBytes);
  for (uint32_t number = 1; number <= 60; ++number) {
    const uint32_t bytes = number % 4 == 0   ? 1000
                           : number % 7 == 0 ? 999
                           : number % 3 == 0 ? static_cast<uint32_t>(DirectRing::kSlotBytes)
                                             : sizes(number);
    ASSERT_EQ(ring.pass(bytes), "") << "message " << number << " of " << bytes << " bytes";
  }
  EXPECT_EQ(ring.passAfterCancel(), "");
}

// ---- set-up

ErrorCode codeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::Internal;
}

TEST_P(TransportTest, ADifferentLayoutIsRefused) {
  const RingLayout ours{.channels = 2, .slotCount = 4, .slotBytes = 4096};
  for (const RingLayout& theirs : {RingLayout{1, 4, 4096}, {2, 2, 4096}, {2, 4, 8192}}) {
    auto a = fabric_->endpoints(2, ours);
    auto b = fabric_->endpoints(2, theirs);
    EXPECT_EQ(codeOf([&] { a[0]->connect(1, b[1]->address(0)); }), ErrorCode::Refused);
    EXPECT_EQ(codeOf([&] { b[1]->connect(0, a[0]->address(1)); }), ErrorCode::Refused);
    // The refusal does no harm.
    a[0]->connect(1, a[1]->address(0));
  }
}

TEST_P(TransportTest, AnAddressOfOrForSomebodyElseIsRefused) {
  auto all = fabric_->endpoints(3, {});
  EXPECT_EQ(codeOf([&] { all[0]->connect(1, all[2]->address(0)); }), ErrorCode::Refused);
  EXPECT_EQ(codeOf([&] { all[0]->connect(1, all[1]->address(2)); }), ErrorCode::Refused);
}

TEST_P(TransportTest, ImpossiblePeersAreRefused) {
  auto all = fabric_->endpoints(2, {});
  for (const int peer : {-1, 0, 2, 1 << 30}) {
    EXPECT_EQ(codeOf([&] { all[0]->address(peer); }), ErrorCode::InvalidArgument) << peer;
    EXPECT_EQ(codeOf([&] { all[0]->connect(peer, {}); }), ErrorCode::InvalidArgument) << peer;
  }
  all[0]->connect(1, all[1]->address(0));
  EXPECT_EQ(codeOf([&] { all[0]->connect(1, all[1]->address(0)); }), ErrorCode::InvalidUsage);
  EXPECT_EQ(codeOf([&] { all[1]->sendRing(0, 0); }), ErrorCode::Internal);
  EXPECT_EQ(codeOf([&] { all[0]->sendRing(1, 1); }), ErrorCode::Internal);
  EXPECT_EQ(codeOf([&] { all[0]->receiveRing(1, -1); }), ErrorCode::Internal);
  EXPECT_EQ(codeOf([&] { all[0]->receiveRing(5, 0); }), ErrorCode::Internal);
}

// One connection with a blob that was tampered with: it is refused, or it works.
void expectRefusedOrUsable(Endpoint& endpoint, EndpointAddress address, const std::string& what) {
  try {
    endpoint.connect(1, std::move(address));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Refused) << what << ": " << e.what();
    return;
  }
  SendRing& ring = endpoint.sendRing(1, 0);
  EXPECT_TRUE(ring.ready());
  std::memset(ring.payload(endpoint.layout().slotBytes), 1, endpoint.layout().slotBytes);
  ring.publish(0, 0, static_cast<uint32_t>(endpoint.layout().slotBytes));
  EXPECT_FALSE(endpoint.receiveRing(1, 0).ready());
}

TEST_P(TransportTest, HostileAddressesAreRefused) {
  const RingLayout layout{.channels = 1, .slotCount = 2, .slotBytes = 64};
  auto all = fabric_->endpoints(2, layout);
  const auto fresh = [&] { return all[1]->address(0); };
  const size_t bytes = fresh().blob.size();
  for (size_t n = 0; n < bytes; ++n) {  // cut off
    EndpointAddress address = fresh();
    address.blob.resize(n);
    EXPECT_EQ(codeOf([&] { all[0]->connect(1, std::move(address)); }), ErrorCode::Refused) << n;
  }
  EndpointAddress longer = fresh();
  longer.blob.push_back(std::byte{0});
  EXPECT_EQ(codeOf([&] { all[0]->connect(1, std::move(longer)); }), ErrorCode::Refused);

  for (uint64_t round = 0; round < 3'000; ++round) {
    all = fabric_->endpoints(2, layout);
    EndpointAddress address = fresh();
    const uint64_t dice = scramble(testSeed(), round);
    for (uint64_t change = 0; change <= dice % 3; ++change) {
      const uint64_t more = scramble(dice, change);
      address.blob[more % bytes] = std::byte(more >> 32);
    }
    if (dice % 7 == 0) address.descriptors.clear();
    if (dice % 11 == 0) address.descriptors.resize(3);
    expectRefusedOrUsable(*all[0], std::move(address), base::message("round ", round));
  }
  all = fabric_->endpoints(2, layout);                // the last of those may be connected
  for (uint64_t round = 0; round < 2'000; ++round) {  // noise
    EndpointAddress address;
    address.blob.resize(scramble(testSeed(), round) % 200);
    for (size_t i = 0; i < address.blob.size(); ++i)
      address.blob[i] = std::byte(scramble(testSeed() + round, i));
    EXPECT_EQ(codeOf([&] { all[0]->connect(1, std::move(address)); }), ErrorCode::Refused);
  }
}

}  // namespace
}  // namespace tutti::tests
