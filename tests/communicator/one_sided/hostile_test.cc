// One-sided messages that no correct rank sends, from a peer that writes them into its ring itself:
// each fails the communicator with an error that names the peer, and nothing is written beside the
// buffers of windows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <tutti/tutti.h>

#include "src/communicator/state.h"
#include "tests/communicator/one_sided/pair.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using communicator::kOneSidedMark;
using communicator::OneSidedHeader;

constexpr size_t kBytes = 1000, kGuard = 4096;
constexpr uint8_t kFill = 0xa5;
constexpr uint32_t kSignals = OneSidedPair::kSignals;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

struct Message {
  OneSidedHeader header = {};
  uint32_t payload = 0;  // bytes behind the header
  int64_t told = -1;     // that the slot's header says; -1: those that there are
  uint32_t mark = kOneSidedMark;
};

/// Rank 0, and a liar that is rank 1.
class LyingPair {
 public:
  Communicator& victim() { return pair_.rank(0); }
  Communicator& liar() { return pair_.rank(1); }
  Communicator::Impl& liarsParts() { return pair_.parts(1); }

  size_t slotBytes() { return liarsParts().oneSided.endpoint()->layout().slotBytes; }
  void send(const Message& message) {
    transports::SendRing& ring = liarsParts().oneSided.endpoint()->sendRing(0, 0);
    if (!eventually([&] { return ring.ready() || victim().asyncError(); }) || !ring.ready()) return;
    const auto there = static_cast<uint32_t>(sizeof message.header + message.payload);
    const auto told = message.told < 0 ? there : static_cast<uint32_t>(message.told);
    std::byte* const at = ring.payload(told);
    std::memcpy(at, &message.header, sizeof message.header);
    std::memset(at + sizeof message.header, 7, message.payload);
    ring.publish(message.mark, 0, told);
  }
  bool isUntouched(bool alsoTheBuffer) const {
    const auto isFill = [](uint8_t byte) { return byte == kFill; };
    const auto buffer = memory_.begin() + kGuard;
    return std::all_of(memory_.begin(), alsoTheBuffer ? buffer + kBytes : buffer, isFill) &&
           std::all_of(buffer + kBytes, memory_.end(), isFill);
  }

 private:
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kGuard + kBytes + kGuard, kFill);
  OneSidedPair pair_{memory_.data() + kGuard, kBytes};
};

/// Thousands of failures are logged.
class HostileOneSided : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setLogSink([](LogLevel, std::string_view) {});
  }
  static void TearDownTestSuite() { setLogSink({}); }
};

TEST_F(HostileOneSided, AGoodMessageIsTaken) {
  LyingPair pair;
  pair.send({.header = {.window = 1, .offset = kBytes - 5, .signal = 2}, .payload = 5});
  OneSidedPair::await(pair.victim(), 1);
  EXPECT_TRUE(pair.isUntouched(false));
  EXPECT_FALSE(pair.isUntouched(true));
}

TEST_F(HostileOneSided, EachBadMessageIsRefusedWithThePeersName) {
  const auto most = std::numeric_limits<uint32_t>::max();
  const char* const form = "rank 1 (pid";
  const struct {
    const char* name;
    const char* words;
    Message message;
  } bad[] = {
      {"another mark", "sent a malformed one-sided message to rank 0", {.mark = kOneSidedMark + 1}},
      {"no bytes", "sent a malformed one-sided message to rank 0", {.told = 0}},
      {"a part of the header", "sent a malformed one-sided message to rank 0", {.told = 23}},
      {"all bytes that there are", "sent a malformed one-sided message to rank 0", {.told = most}},
      {"a window that was never made",
       "puts 8 bytes into window 2 of rank 0",
       {.header = {.window = 2}, .payload = 8}},
      {"the last of all windows", "which has made 1 windows", {.header = {.window = kMost}}},
      {"a payload for no window", "puts 8 bytes into window 0", {.payload = 8}},
      {"an offset beyond the buffer",
       "puts 0 bytes at 1001 into window 1 of rank 0",
       {.header = {.window = 1, .offset = kBytes + 1}}},
      {"bytes beyond the buffer",
       "puts 8 bytes at 993 into window 1 of rank 0",
       {.header = {.window = 1, .offset = kBytes - 7}, .payload = 8}},
      {"an offset that overflows",
       "into window 1 of rank 0",
       {.header = {.window = 1, .offset = kMost - 3}, .payload = 8}},
      {"a signal that is none", "sent signal 2 to rank 0", {.header = {.signal = kSignals + 1}}},
      {"the last of all signals", "sent signal 4294967294 to rank 0", {.header = {.signal = most}}},
  };
  for (const auto& [name, words, message] : bad) {
    LyingPair pair;
    pair.send(message);
    for (Communicator* const rank : {&pair.victim(), &pair.liar()}) {
      const Outcome outcome = outcomeOf([&] { OneSidedPair::await(*rank, 1); });
      EXPECT_EQ(outcome.code, ErrorCode::Internal) << name << ": " << outcome.text;
      EXPECT_TRUE(contains(outcome.text, form)) << name << ": " << outcome.text;
      EXPECT_TRUE(contains(outcome.text, words)) << name << ": " << outcome.text;
    }
    EXPECT_TRUE(pair.isUntouched(true)) << name;
  }
  LyingPair pair;
  pair.send({.told = static_cast<int64_t>(pair.slotBytes()) + 1});
  expectError(outcomeOf([&] { OneSidedPair::await(pair.victim(), 1); }), ErrorCode::Internal,
              "malformed");
}

// Messages with what chance changes in their headers, until one is bad.
TEST_F(HostileOneSided, NothingIsWrittenBesideTheBuffer) {
  Mutator dice(testSeed());
  int taken = 0, refused = 0;
  for (int i = 0; i < (kSanitized ? 20 : 80); ++i) {
    LyingPair pair;
    for (int message = 0; message < 4; ++message) {
      const bool puts = dice.below(2) == 0;
      Message told{.header = {.window = puts, .signal = static_cast<uint32_t>(dice.below(2))},
                   .payload = puts ? static_cast<uint32_t>(dice.below(200)) : 0};
      if (puts) told.header.offset = dice.below(kBytes - told.payload + 1);
      if (dice.below(6) == 0) {
        std::byte header[sizeof told.header];
        std::memcpy(header, &told.header, sizeof header);
        const base::Bytes changed = dice.mutate({header, header + sizeof header});
        std::memcpy(&told.header, changed.data(), std::min(changed.size(), sizeof header));
      }
      if (dice.below(16) == 0) told.told = static_cast<int64_t>(dice.below(2 * pair.slotBytes()));
      pair.send(told);
    }
    pair.send({.header = {.signal = 2}});
    const Outcome outcome = outcomeOf([&] { OneSidedPair::await(pair.victim(), 1); });
    const bool failed = outcome.text != Outcome().text;
    EXPECT_TRUE(!failed || contains(outcome.text, "rank 1 (pid")) << outcome.text;
    EXPECT_TRUE(pair.isUntouched(false)) << outcome.text;
    ++(failed ? refused : taken);
  }
  EXPECT_GT(taken, 0) << "no message is good: the test tests nothing";
  EXPECT_GT(refused, 0) << "no message is bad: the test tests nothing";
}

// Memory that this rank has mapped: who says of its buffer that it is larger is not put to.
TEST_F(HostileOneSided, ABufferLargerThanItsMemoryIsRefused) {
  LyingPair pair;
  const Memory memory = pair.liar().allocate(4096);
  Communicator::Impl& liar = pair.liarsParts();
  const auto place = liar.who.world()->windows->locate(memory.data(), memory.bytes());
  ASSERT_NE(place.window, executor::WindowPlace::kNone);
  const Window mine = pair.victim().window({});
  communicator::message::WindowMessage told{
      .kind = communicator::message::WindowMessage::Kind::Opened,
      .window = 2,
      .bytes = uint64_t{1} << 40,
      .place = place};
  liar.messages.send(0, told);
  const int64_t word = 5;
  const Outcome outcome = outcomeOf([&] {
    pair.victim().put({.send = &word,
                       .count = 1,
                       .type = DataType::Int64,
                       .peer = 1,
                       .window = &mine,
                       .offset = uint64_t{1} << 30});
  });
  expectError(outcome, ErrorCode::Internal, "rank 1 of the job (pid");
  expectError(outcome, ErrorCode::Internal, "says that it has 1099511627776 bytes at offset 0");
}

}  // namespace
}  // namespace tutti::tests
