// Windows and one-sided calls on host memory: what puts, signals and waits do, by every way to
// another rank, and what is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include <tutti/tutti.h>

#include "tests/communicator/transfers.h"
#include "tests/support/cut_connections.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

/// Where the buffers of windows lie: ordinary memory is put into by messages, shared memory
/// directly.
struct Way {
  const char* transport;
  bool shared;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << (*way.transport ? way.transport : "shm") << (way.shared ? "Shared" : "Ordinary");
}

class OneSidedWays : public testing::TestWithParam<Way> {
 protected:
  static std::vector<Communicator> make(int size, CommunicatorOptions options = {}) {
    options.transport = GetParam().transport;
    return Communicator::createLocal(size, options);
  }
  static Memory allocate(Communicator& c, size_t bytes) {
    if (GetParam().shared) return c.allocate(bytes);
    const auto memory = std::make_shared<Bytes>(bytes);
    return {memory->data(), bytes, memory};
  }
};

INSTANTIATE_TEST_SUITE_P(All, OneSidedWays,
                         testing::Values(Way{"", false}, Way{"", true}, Way{"tcp", false},
                                         Way{"ucx", false}),
                         testing::PrintToStringParamName());

TEST_P(OneSidedWays, PutAndItsSignalComeTogether) {
  auto ranks = make(2);
  runRanks(ranks, [](Communicator& c) {
    for (const size_t bytes : {1, 23, 24, 25, 4096, 65535, 65536, 300001, 4'000'000}) {
      const Memory memory = allocate(c, bytes + 20);
      const Window window = c.window({memory.data(), memory.bytes()});
      const Bytes mine = content(bytes + static_cast<size_t>(c.rank()), bytes);
      const Bytes theirs = content(bytes + static_cast<size_t>(1 - c.rank()), bytes);
      c.put({.send = mine.data(),
             .count = bytes,
             .type = DataType::UInt8,
             .peer = 1 - c.rank(),
             .window = &window,
             .offset = 7});
      const AwaitedSignals one{.peer = 1 - c.rank()};
      c.waitSignals({.signals = {&one, 1}});
      const auto* const got = memory.as<uint8_t>();
      // From the end, which comes last.
      EXPECT_TRUE(
          std::equal(theirs.rbegin(), theirs.rend(), std::reverse_iterator(got + 7 + bytes)))
          << bytes;
      EXPECT_TRUE(std::all_of(got, got + 7, [](uint8_t b) { return b == 0; })) << bytes;
      EXPECT_TRUE(std::all_of(got + 7 + bytes, got + bytes + 20, [](uint8_t b) { return b == 0; }));
      c.barrier();
    }
  });
}

// The target is in no call, and sees the data where they are.
TEST_P(OneSidedWays, ATargetMakesNoCall) {
  auto ranks = make(2);
  std::atomic<bool> done{false};
  runRanks(ranks, [&](Communicator& c) {
    constexpr size_t kBytes = 3'000'000;
    const Memory memory = allocate(c, kBytes);
    const Window window = c.window({memory.data(), c.rank() == 1 ? kBytes : 0});
    if (c.rank() == 0) {
      const Bytes data = content(5, kBytes);
      for (int i = 0; i < 3; ++i)
        c.put({.send = data.data(),
               .count = kBytes,
               .type = DataType::UInt8,
               .peer = 1,
               .window = &window});
      done = true;
    } else {
      while (!done) std::this_thread::sleep_for(1ms);  // more than a ring holds
      const AwaitedSignals three{.peer = 0, .count = 3};
      c.waitSignals({.signals = {&three, 1}});
      EXPECT_TRUE(std::ranges::equal(content(5, kBytes), std::span(memory.as<uint8_t>(), kBytes)));
    }
    c.barrier();
  });
}

TEST_P(OneSidedWays, ARankMayPutToItself) {
  auto ranks = make(2);
  runRanks(ranks, [](Communicator& c) {
    const Memory memory = allocate(c, 8);
    const Window window = c.window({memory.data(), 8});
    const int64_t value = 40 + c.rank();
    c.put(
        {.send = &value, .count = 1, .type = DataType::Int64, .peer = c.rank(), .window = &window});
    const AwaitedSignals one{.peer = c.rank()};
    c.waitSignals({.signals = {&one, 1}});
    EXPECT_EQ(*memory.as<int64_t>(), value);
    c.barrier();
  });
}

// Each signal of each peer counts by itself; a wait takes what it waits for, and no more.
TEST_P(OneSidedWays, SignalsCountByPeerAndNumber) {
  auto ranks = make(3, {.signals = 4});
  runRanks(ranks, [](Communicator& c) {
    const Window window = c.window({});
    for (int peer = 0; peer < 3; ++peer)
      for (int signal = 0; signal < 4; ++signal)
        for (int i = 0; i < 3 + signal; ++i) c.signal({.peer = peer, .signal = signal});
    std::vector<AwaitedSignals> first, rest;
    for (int peer = 0; peer < 3; ++peer)
      for (int signal = 0; signal < 4; ++signal) {
        first.push_back({.peer = peer, .signal = signal, .count = 2});
        rest.push_back(
            {.peer = peer, .signal = signal, .count = 1 + static_cast<uint64_t>(signal)});
      }
    c.waitSignals({.signals = first});
    c.waitSignals({.signals = rest});
    c.barrier();
    // Nothing is left: a wait for one more ends only by the next signal.
    Stream stream;
    const AwaitedSignals more{.peer = (c.rank() + 1) % 3, .signal = 2};
    c.waitSignals({.signals = {&more, 1}}, stream);
    c.barrier();
    EXPECT_FALSE(stream.query());
    c.barrier();
    c.signal({.peer = (c.rank() + 2) % 3, .signal = 2});
    stream.synchronize();
    c.barrier();
  });
}

// The one that began first takes its signals first, though it needs more of them.
TEST_P(OneSidedWays, WaitsTakeSignalsInTheOrderInWhichTheyBegin) {
  auto ranks = make(2, {.timeout = 20s});
  std::vector<Window> windows;
  for (Communicator& c : ranks) windows.push_back(c.window({}));
  const auto begin = [&](uint64_t count, StreamRef stream, const char* line) {
    const AwaitedSignals awaited{.peer = 1, .count = count};
    ranks[0].waitSignals({.signals = {&awaited, 1}}, stream);
    EXPECT_TRUE(eventually([&] { return ranks[0].describe().find(line) != std::string::npos; }));
  };
  Stream first, second;
  begin(2, first, "wait for 2 signals of rank 1 is under way");
  begin(1, second, "wait for 1 signal of rank 1 is under way");
  for (int i = 0; i < 2; ++i) ranks[1].signal({.peer = 0});
  first.synchronize();
  EXPECT_FALSE(second.query());
  ranks[1].signal({.peer = 0});
  second.synchronize();
}

// Nobody who has made no use of a rank minds that it leaves.
TEST_P(OneSidedWays, ARankMayLeaveBeforeOthersConnectToIt) {
  auto ranks = make(3);
  ranks[0].window({});  // and gives it back
  ranks.erase(ranks.begin());
  runRanks(ranks, [&](Communicator& c) {
    const Window window = c.window({});
    const AwaitedSignals one{.peer = 3 - c.rank()};
    for (int round = 0; round < 40; ++round) {  // for longer than a break may take
      c.signal({.peer = 3 - c.rank()});
      c.waitSignals({.signals = {&one, 1}});
      std::this_thread::sleep_for(10ms);
    }
  });
}

// Nothing serves then, and who signals may make no further call.
TEST_P(OneSidedWays, SignalsArriveWithoutWindows) {
  auto ranks = make(2);
  std::vector<Window> windows;
  for (Communicator& c : ranks) windows.push_back(c.window({}));
  runRanks(ranks, [](Communicator& c) {  // so that they are connected
    c.signal({.peer = 1 - c.rank()});
    const AwaitedSignals one{.peer = 1 - c.rank()};
    c.waitSignals({.signals = {&one, 1}});
  });
  windows.clear();
  std::this_thread::sleep_for(10ms);  // until both know
  ranks[0].signal({.peer = 1});
  const AwaitedSignals one{.peer = 0};
  ranks[1].waitSignals({.signals = {&one, 1}});
}

// On streams a wait holds back what is behind it, and nothing else.
TEST_P(OneSidedWays, StreamsGiveTheOrder) {
  auto ranks = make(2);
  runRanks(ranks, [](Communicator& c) {
    const Memory memory = allocate(c, 16);
    auto* const words = memory.as<int64_t>();
    const Window window = c.window({words, 2});
    const int peer = 1 - c.rank();
    Stream in, out;
    const AwaitedSignals one{.peer = peer};
    int64_t seen = 0, sent = 0;
    for (int round = 1; round <= 50; ++round) {
      c.waitSignals({.signals = {&one, 1}}, in);
      in.enqueue([&] { seen = words[0]; });
      out.enqueue([&, round] { sent = round * 10 + c.rank(); });
      c.put({.send = &sent, .count = 1, .type = DataType::Int64, .peer = peer, .window = &window},
            out);
      in.synchronize();
      EXPECT_EQ(seen, round * 10 + peer);
      c.barrier();
    }
  });
}

// In a group a wait does not hold back the puts behind it, or nobody would begin.
TEST_P(OneSidedWays, GroupsAreInFlightAtOnce) {
  auto ranks = make(3);
  runRanks(ranks, [](Communicator& c) {
    const Memory memory = allocate(c, 24);
    auto* const words = memory.as<int64_t>();
    const Window window = c.window({words, 3});
    std::optional<Stream> stream;
    for (const bool onStream : {false, true}) {
      if (onStream) stream.emplace();
      const StreamRef to = onStream ? StreamRef(*stream) : StreamRef();
      const int64_t mine = c.rank() + (onStream ? 100 : 10);
      int64_t sum = mine;
      Group group;
      std::vector<AwaitedSignals> all;
      for (int peer = 0; peer < 3; ++peer) all.push_back({.peer = peer});
      c.waitSignals({.signals = all}, to);
      for (int peer = 0; peer < 3; ++peer)
        c.put({.send = &mine,
               .count = 1,
               .type = DataType::Int64,
               .peer = peer,
               .window = &window,
               .offset = 8 * static_cast<size_t>(c.rank())},
              to);
      c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int64}, to);
      group.end();
      if (onStream) stream->synchronize();
      for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(words[peer], mine - c.rank() + peer);
      EXPECT_EQ(sum, 3 * (mine - c.rank()) + 3);
      c.barrier();
    }
  });
}

// And go in the order in which they were issued.
TEST_P(OneSidedWays, GroupsKeepTheOrderOfPuts) {
  auto ranks = make(2);
  runRanks(ranks, [](Communicator& c) {
    const Memory memory = allocate(c, 8);
    const Window window = c.window({memory.data(), 8});
    const int64_t values[] = {1, 2, 3};
    Group group;
    for (const int64_t& value : values)
      c.put({.send = &value,
             .count = 1,
             .type = DataType::Int64,
             .peer = 1 - c.rank(),
             .window = &window});
    group.end();
    const AwaitedSignals all{.peer = 1 - c.rank(), .count = 3};
    c.waitSignals({.signals = {&all, 1}});
    EXPECT_EQ(*memory.as<int64_t>(), 3);
    c.barrier();
  });
}

TEST_P(OneSidedWays, PreparedCallsStartAgain) {
  auto ranks = make(2);
  runRanks(ranks, [](Communicator& c) {
    const Memory memory = allocate(c, 8);
    const Window window = c.window({memory.data(), 8});
    int64_t value = 0;
    const AwaitedSignals one{.peer = 1 - c.rank()};
    PreparedCall put = c.prepare(PutArgs{.send = &value,
                                         .count = 1,
                                         .type = DataType::Int64,
                                         .peer = 1 - c.rank(),
                                         .window = &window});
    PreparedCall wait = c.prepare(WaitSignalsArgs{{&one, 1}});
    for (int round = 1; round < 20; ++round) {
      value = round + 1000 * c.rank();
      put.start();
      wait.start();
      EXPECT_EQ(*memory.as<int64_t>(), round + 1000 * (1 - c.rank()));
      c.barrier();
    }
  });
}

TEST_P(OneSidedWays, WindowsKnowSizesAndAddresses) {
  auto ranks = make(3);
  runRanks(ranks, [](Communicator& c) {
    const size_t bytes = 100 * static_cast<size_t>(c.rank());
    const Memory memory = allocate(c, bytes);
    const Window window = c.window({memory.data(), bytes});
    EXPECT_EQ(window.buffer(), memory.data());
    EXPECT_EQ(window.rank(), c.rank());
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(window.bytes(peer), 100 * static_cast<size_t>(peer));
      auto* const at = static_cast<uint8_t*>(window.address(peer));
      const bool reached = peer == c.rank() ? peer > 0 : GetParam().shared && peer > 0;
      EXPECT_EQ(at != nullptr, reached) << c.rank() << " to " << peer;
      if (at && peer != c.rank()) at[c.rank()] = static_cast<uint8_t>(50 + c.rank());
    }
    c.barrier();
    for (int peer = 0; peer < 3; ++peer) {
      if (!GetParam().shared || c.rank() == 0 || peer == c.rank()) continue;
      EXPECT_EQ(memory.as<uint8_t>()[peer], 50 + peer);
    }
    EXPECT_EQ(outcomeOf([&] { window.bytes(3); }).code, ErrorCode::InvalidArgument);
    EXPECT_EQ(outcomeOf([&] { window.address(-1); }).code, ErrorCode::InvalidArgument);
    c.barrier();
  });
}

TEST(OneSided, WorksAlone) {
  auto ranks = Communicator::createLocal(1);
  int64_t word = 0;
  const int64_t value = 5;
  const Window window = ranks[0].window({&word, 1});
  ranks[0].put({.send = &value, .count = 1, .type = DataType::Int64, .peer = 0, .window = &window});
  const AwaitedSignals one{};
  ranks[0].waitSignals({.signals = {&one, 1}});
  EXPECT_EQ(word, 5);
}

// What is under way is listed, with whom it waits for, until it is over, or has failed.
TEST(OneSided, DescribeListsWhatIsUnderWay) {
  auto ranks = Communicator::createLocal(2, {.timeout = 700ms});
  std::vector<Window> windows;
  for (Communicator& c : ranks) windows.push_back(c.window({}));
  const auto shows = [&](const std::string& words) {
    return ranks[0].describe().find(words) != std::string::npos;
  };
  const std::string line = "  wait for 2 signals of rank 1 is under way; waits for rank 1, ";
  for (const bool fails : {false, true}) {
    EXPECT_FALSE(shows("under way"));
    Stream stream;
    const AwaitedSignals two{.peer = 1, .count = 2};
    ranks[0].waitSignals({.signals = {&two, 1}}, stream);
    EXPECT_TRUE(eventually([&] { return shows(line); })) << ranks[0].describe();
    if (!fails)
      for (int i = 0; i < 2; ++i) ranks[1].signal({.peer = 0});
    EXPECT_EQ(
        outcomeOf([&] { stream.synchronize(); }).text.find("did not complete") != std::string::npos,
        fails);
  }
  EXPECT_FALSE(shows("under way"));
}

TEST(OneSided, RefusesWhatCannotBe) {
  auto ranks = Communicator::createLocal(2, {.signals = 2});
  auto others = Communicator::createLocal(1);
  int64_t words[4] = {};
  const AwaitedSignals one{.peer = 1};
  const auto refused = [](ErrorCode code, const std::string& text, const auto& call) {
    const Outcome outcome = outcomeOf(call);
    EXPECT_EQ(outcome.code, code) << outcome.text;
    EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
  };
  using enum ErrorCode;
  Communicator& c = ranks[0];
  refused(InvalidUsage, "signal needs a window", [&] { c.signal({.peer = 1}); });
  refused(InvalidArgument, "more than there can be", [&] { c.window({words, ~size_t{0}}); });
  refused(InvalidUsage, "waitSignals needs a window", [&] {
    c.waitSignals({.signals = {&one, 1}});
  });
  refused(InvalidArgument, "buffer is null with 8 bytes", [&] {
    c.window({static_cast<void*>(nullptr), 8});
  });
  const Window mine = c.window({words, 2});
  std::optional<Window> theirs = ranks[1].window({words + 2, 2});
  const Window foreign = others[0].window({words, 1});
  const auto put = [&](PutArgs args) {
    args.type = DataType::Int64;
    c.put(args);
  };
  const PutArgs good{.send = words, .count = 2, .peer = 1, .window = &mine};
  const auto with = [&](auto change) {
    PutArgs args = good;
    change(args);
    return [args, put] { put(args); };
  };
  refused(InvalidArgument, "window is null", with([](PutArgs& a) { a.window = nullptr; }));
  const Window none;
  refused(InvalidArgument, "window is null", with([&](PutArgs& a) { a.window = &none; }));
  refused(InvalidArgument, "another communicator", with([&](PutArgs& a) { a.window = &foreign; }));
  refused(InvalidArgument, "peer 2", with([](PutArgs& a) { a.peer = 2; }));
  refused(InvalidArgument, "peer -1", with([](PutArgs& a) { a.peer = -1; }));
  refused(InvalidArgument, "signal 2", with([](PutArgs& a) { a.signal = 2; }));
  refused(InvalidArgument, "signal -1", with([](PutArgs& a) { a.signal = -1; }));
  refused(InvalidArgument, "send is null", with([](PutArgs& a) { a.send = nullptr; }));
  refused(InvalidArgument, "16 bytes at offset 1 do not fit",
          with([](PutArgs& a) { a.offset = 1; }));
  refused(InvalidArgument, "do not fit", with([](PutArgs& a) { a.offset = ~size_t{0} - 7; }));
  refused(InvalidArgument, "which has 16 bytes", with([](PutArgs& a) { a.count = 3; }));
  refused(InvalidArgument, "", with([](PutArgs& a) { a.count = ~size_t{0} / 8 + 2; }));
  refused(InvalidArgument, "peer 7", [&] { c.signal({.peer = 7}); });
  refused(InvalidArgument, "signal 9", [&] { c.signal({.peer = 1, .signal = 9}); });
  const AwaitedSignals wrong{.peer = 1, .signal = 2};
  refused(InvalidArgument, "signal 2", [&] { c.waitSignals({.signals = {&wrong, 1}}); });
  put(good);  // none of that has hurt
  const AwaitedSignals got{.peer = 0};
  ranks[1].waitSignals({.signals = {&got, 1}});
  theirs.reset();
  const auto again = [&] {
    c.prepare(PutArgs{.count = 0, .type = DataType::Int64, .peer = 1, .window = &mine});
  };
  for (int i = 0; i < 5000 && outcomeOf(again).code != InvalidUsage; ++i)  // until it is told
    std::this_thread::sleep_for(1ms);
  refused(InvalidUsage, "given its buffer in the window back", again);
  EXPECT_EQ(outcomeOf([] { Communicator::createLocal(1, {.signals = 0}); }).code, InvalidArgument);
  EXPECT_EQ(outcomeOf([] { Communicator::createLocal(1, {.signals = 65537}); }).code,
            InvalidArgument);
}

/// Puts to the other rank and cuts connections between, while `goesOn`.
void putAndCut(std::vector<Communicator>& ranks, const std::function<bool()>& goesOn) {
  constexpr size_t kBytes = 2'000'000;
  std::vector<std::vector<uint8_t>> buffers(2, std::vector<uint8_t>(kBytes));
  std::vector<Window> windows;
  for (size_t r = 0; r < 2; ++r) windows.push_back(ranks[r].window({buffers[r].data(), kBytes}));
  for (uint8_t round = 1; goesOn(); ++round) {
    const std::vector<uint8_t> data(kBytes, round);
    EXPECT_TRUE(round == 1 || cutConnections() > 0);
    ranks[0].put({.send = data.data(),
                  .count = kBytes,
                  .type = DataType::UInt8,
                  .peer = 1,
                  .window = &windows[0]});
    const AwaitedSignals one{.peer = 0};
    ranks[1].waitSignals({.signals = {&one, 1}});
    EXPECT_EQ(buffers[1], data);
  }
}

// Only the connection ends: TCP makes it again, UCX names the peer. Of processes the control plane
// tells more, and sooner.
TEST(OneSidedBreak, OfAConnectionOfTcpIsMended) {
  auto ranks = Communicator::createLocal(2, {.transport = "tcp"});
  int rounds = 0;
  putAndCut(ranks, [&] { return ++rounds < 5; });
}

TEST(OneSidedBreak, OfAConnectionOfUcxNamesThePeer) {
  ::setenv("UCX_TLS", "tcp", 1);
  auto ranks = Communicator::createLocal(2, {.transport = "ucx"});
  ::unsetenv("UCX_TLS");
  const Outcome outcome = outcomeOf([&] { putAndCut(ranks, [] { return true; }); });
  expectError(outcome, ErrorCode::PeerLost, " was lost: its connection broke");
  expectError(outcome, ErrorCode::PeerLost, "noticed by its windows");
}

TEST(OneSided, SuspendingWantsTheWindowsBack) {
  auto ranks = Communicator::createLocal(1);
  std::optional<Window> window = ranks[0].window({});
  const Outcome outcome = outcomeOf([&] { std::move(ranks[0]).suspend(); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidUsage);
  EXPECT_NE(outcome.text.find("without windows"), std::string::npos) << outcome.text;
  window.reset();
  Communicator again = std::move(ranks[0]).suspend().resume();
  EXPECT_EQ(outcomeOf([&] { again.signal({}); }).code, ErrorCode::InvalidUsage);
}

}  // namespace
}  // namespace tutti::tests
