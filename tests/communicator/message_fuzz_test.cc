// The messages between communicators, and between their windows, changed at random by one rank that
// lies: whoever gets one ignores it or fails with an Error that names the liar. Nothing crashes,
// nothing waits beyond its deadline, and the others go on; the sanitizers see the rest.
// TUTTI_FUZZ_CASES changes the number of cases of each test. A seed replays the changes; process
// ids and addresses in what is changed differ from run to run.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <tutti/log.h>
#include <tutti/tutti.h>

#include "src/communicator/endpoints.h"
#include "src/communicator/local.h"
#include "src/communicator/state.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/local_ranks.h"
#include "tests/support/mutator.h"
#include "tests/support/sanitized.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/segment.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using bootstrap::ControlMessage;
using bootstrap::ControlPlane;
using communicator::WindowTable;
using Impl = Communicator::Impl;
using MessageType = communicator::message::MessageType;
using Planes = std::vector<std::shared_ptr<ControlPlane>>;

constexpr int kRanks = 3;
constexpr int kLiar = 1;
constexpr size_t kBytes = 1000;   // of a window
constexpr uint64_t kMarkers = 2;  // a channel that no communicator has
// Types of messages to communicators without GPUs; to tables of windows, where none is refused.
constexpr size_t kCommunicatorTypes = communicator::message::kTypes - 1, kTableTypes = 3;

int cases(int ordinary) {
  const char* given = std::getenv("TUTTI_FUZZ_CASES");
  if (given) return std::atoi(given);
  return kSanitized ? ordinary / 4 : ordinary;
}

/// One rank's end of a control plane, whose messages somebody else sends on: as they are, changed,
/// or not at all.
class Tapped final : public ControlPlane {
 public:
  using Tap = std::function<void(ControlPlane& plane, int to, ControlMessage message)>;
  Tapped(std::shared_ptr<ControlPlane> plane, Tap tap)
      : plane_(std::move(plane)), tap_(std::move(tap)) {}
  int rank() const override { return plane_->rank(); }
  int size() const override { return plane_->size(); }
  const bootstrap::PeerInfo& peer(int rank) const override { return plane_->peer(rank); }
  void send(int to, ControlMessage message) override { tap_(*plane_, to, std::move(message)); }
  void listen(uint64_t channel, bootstrap::ControlListener* listener) override {
    plane_->listen(channel, listener);
  }
  void ignore(uint64_t channel) override { plane_->ignore(channel); }
  bool runs(int rank) const override { return plane_->runs(rank); }
  void leave() override { plane_->leave(); }
  void awaitSent(const base::Deadline& deadline) override { plane_->awaitSent(deadline); }

 private:
  const std::shared_ptr<ControlPlane> plane_;
  const Tap tap_;
};

std::vector<Communicator> makeRanks(const Planes& planes, const CommunicatorOptions& options) {
  return communicator::makeLocal(
      kRanks, options,
      [](int rank) {
        return transports::shm::makeShmEndpoint(
            rank, kRanks, transports::shm::chooseLayout(kRanks, communicator::kChannels));
      },
      planes);
}

/// Good messages, as a job sent them: what tests change.
struct Recording {
  using Kind = std::pair<bool, uint32_t>;  // whether of a window; type
  std::map<Kind, std::vector<base::Bytes>> payloads;
  uint64_t channel = 0;  // of the first communicator

  bool has(MessageType type) const {
    return payloads.contains({false, static_cast<uint32_t>(type)});
  }
};

/// A job in which every type of message is sent.
Recording record() {
  std::mutex mutex;
  Recording recording;
  Planes planes;
  for (auto& plane : bootstrap::makeLocalControlPlanes(kRanks))
    planes.push_back(std::make_shared<Tapped>(
        std::move(plane), [&](ControlPlane& to, int rank, ControlMessage message) {
          {
            std::lock_guard lock(mutex);
            const bool window = message.channel == WindowTable::kChannel;
            recording.payloads[{window, message.type}].push_back(message.payload);
            if (!window && message.type == static_cast<uint32_t>(MessageType::Inquiry))
              recording.channel = message.channel;
          }
          to.send(rank, std::move(message));
        }));
  const auto sent = [&](MessageType type) {
    std::lock_guard lock(mutex);
    return recording.has(type);
  };
  auto ranks = makeRanks(planes, {});
  planes.clear();
  runRanks(ranks, [&](Communicator& c) {
    c.split(0, c.rank());                      // Hello, Ready; and Goodbye
    const Memory memory = c.allocate(kBytes);  // Announce, Acknowledge, Close
    int sum = c.rank();
    if (c.rank() == 0) {
      EXPECT_TRUE(eventually([&] { return sent(MessageType::Status); }));  // and Inquiry
    }
    const Window window = c.window({memory.data(), kBytes});  // Window
    c.signal({.peer = (c.rank() + 1) % kRanks});
    c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
    c.shrink();  // View, Decision
    c.abort();   // Failure
  });
  ranks.clear();
  EXPECT_EQ(recording.payloads.size(), kCommunicatorTypes + kTableTypes);
  for (uint32_t type = 0; type < communicator::message::kTypes; ++type)
    EXPECT_NE(recording.has(static_cast<MessageType>(type)),
              type == static_cast<uint32_t>(MessageType::Gpu))
        << "type " << type;
  return recording;
}

base::FileDescriptor someDescriptor(Mutator& dice) {
  base::FileDescriptor made(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(made.get(), static_cast<off_t>(dice.below(3) * 4096)) != 0) ADD_FAILURE();
  return made;
}

class MessageFuzz : public testing::Test {
 protected:
  // What is refused is logged, thousands of times.
  static void SetUpTestSuite() {
    setLogSink([](LogLevel, std::string_view) {});
  }

  /// A message as the liar would send it to a communicator, or to windows.
  ControlMessage lie(bool window) {
    auto kind = recording().payloads.lower_bound({window, 0});
    std::advance(kind, dice_.below(window ? kTableTypes : kCommunicatorTypes));
    ControlMessage message;
    message.channel = window ? WindowTable::kChannel : recording().channel;
    message.type = kind->first.second;
    if (dice_.below(10) == 0)
      message.type = static_cast<uint32_t>(dice_.below(communicator::message::kTypes + 2));
    message.payload = dice_.mutate(kind->second[dice_.below(kind->second.size())]);
    if (dice_.below(10) == 0) message.descriptors.push_back(someDescriptor(dice_));
    return message;
  }

  /// Returns when everything that `from` sent to `to` before has been handled.
  static void flush(ControlPlane& from, ControlPlane& to) {
    bootstrap::RecordingListener markers;
    to.listen(kMarkers, &markers);
    from.send(to.rank(), bootstrap::makeMessage(kMarkers, 0, ""));
    EXPECT_EQ(markers.waitMessages(1), 1u);
    to.ignore(kMarkers);
  }

  static const Recording& recording() {
    static const Recording once = record();
    return once;
  }

  Mutator dice_{testSeed()};
};

std::string liar() { return "rank " + std::to_string(kLiar); }

/// The failure, if any, is one that blames the liar.
bool failedByLiar(const Communicator& c) {
  const auto error = c.asyncError();
  if (!error) return false;
  EXPECT_NE(std::string(error->what()).find(liar()), std::string::npos) << error->what();
  EXPECT_STRNE(toString(error->code()), "unknown") << error->what();
  EXPECT_LT(std::string(error->what()).size(), 10'000u);
  return true;
}

// While it is at rest, or in an operation that waits for the liar.
TEST_F(MessageFuzz, ACommunicatorIgnoresOrNamesTheLiar) {
  Planes planes;
  std::vector<Communicator> ranks;
  std::vector<Window> windows;  // so that they connect to a liar that says that it has one
  int ignored = 0, failed = 0;
  const int all = cases(300);
  for (int i = 0; i < all && !HasFailure(); ++i) {
    if (ranks.empty()) {
      planes = bootstrap::makeLocalControlPlanes(kRanks);
      ranks = makeRanks(planes, {.timeout = 20s});
      for (const int other : {0, 2}) windows.push_back(ranks[other].window({}));
    }
    std::vector<Stream> streams(kRanks);
    std::vector<int> sums(kRanks, 1);
    const auto sum = [&](int rank) {
      ranks[rank].allReduce(
          {.send = &sums[rank], .recv = &sums[rank], .count = 1, .type = DataType::Int32},
          streams[rank]);
    };
    const bool busy = dice_.below(2) == 0;
    if (busy) sum(0);
    const ControlMessage told = lie(false);
    for (const int other : {0, 2}) {
      ControlMessage copy{told.channel, told.type, told.payload, {}};
      for (size_t fd = 0; fd < told.descriptors.size(); ++fd)
        copy.descriptors.push_back(someDescriptor(dice_));
      planes[kLiar]->send(other, std::move(copy));
      flush(*planes[kLiar], *planes[other]);
    }
    bool broken = false;
    for (int rank = 0; rank < kRanks; ++rank) try {
        if (!busy || rank > 0) sum(rank);
      } catch (const Error&) {
        broken = true;
      }
    // The liar hears of no failure that it has told.
    if (broken || failedByLiar(ranks[0])) ranks[kLiar].abort();
    for (int rank = 0; rank < kRanks; ++rank) try {
        streams[rank].synchronize();
        EXPECT_TRUE(broken || sums[rank] == kRanks) << sums[rank];
      } catch (const Error&) {
        broken = true;
      }
    // Its leaving may be noticed when the operation is over.
    const bool blamed = failedByLiar(ranks[0]) || failedByLiar(ranks[2]);
    EXPECT_TRUE(blamed || !broken);
    broken |= blamed;
    ++(broken ? failed : ignored);
    if (broken) {
      windows.clear();
      ranks.clear();
    }
  }
  EXPECT_GT(ignored, 0) << "no message is good: the test tests nothing";
  EXPECT_GT(failed, 0) << "no message is bad: the test tests nothing";
}

// What chance seldom hits, and what could be taken for something else.
TEST_F(MessageFuzz, EachRuleOfTheirFormIsKept) {
  using Type = MessageType;
  struct Case {
    const char* name;
    Type type;
    base::Bytes payload;
  };
  const auto withDead = [](base::ByteWriter out, const std::vector<int32_t>& dead,
                           uint32_t more = 0) {
    out.put(static_cast<uint32_t>(dead.size()) + more);
    for (const int32_t rank : dead) out.put(rank);
    return out.take();
  };
  const auto view = [&](const std::vector<int32_t>& dead, uint32_t more = 0) {
    return withDead(base::ByteWriter().put(uint64_t{0}).put(uint32_t{0}).put(uint32_t{0}), dead,
                    more);
  };
  const auto decision = [&](const std::vector<int32_t>& dead) {
    return withDead(base::ByteWriter().put(uint32_t{0}), dead);
  };
  const auto failure = [](int32_t code) {
    return base::ByteWriter().put(code).put(std::string("because")).take();
  };
  using Kind = communicator::message::WindowMessage::Kind;
  const auto window = [](Kind kind) {
    return communicator::message::WindowMessage{.kind = kind, .window = 1}.write();
  };
  const base::Bytes one{std::byte{0}};
  const std::vector<Case> bad{
      {"a view with a rank below 0", Type::View, view({-1})},
      {"a view with a rank beyond the last", Type::View, view({kRanks})},
      {"a view with one rank twice", Type::View, view({2, 2})},
      {"a view whose ranks descend", Type::View, view({2, 0})},
      {"a view by the dead", Type::View, view({kLiar})},
      {"a view with fewer ranks than it says", Type::View, view({2}, UINT32_MAX - 1)},
      {"a decision with a rank beyond the last", Type::Decision, decision({kRanks})},
      {"a decision with one rank twice", Type::Decision, decision({2, 2})},
      {"a decision by the dead", Type::Decision, decision({kLiar})},
      {"a failure with a code below the first", Type::Failure, failure(-1)},
      {"a failure with a code beyond the last", Type::Failure,
       failure(static_cast<int32_t>(ErrorCode::Internal) + 1)},
      {"a failure without end", Type::Failure,
       base::ByteWriter().put(int32_t{0}).put(std::string(100'000, 'x')).take()},
      {"a status of no known activity", Type::Status,
       base::ByteWriter().put(uint64_t{1}).put(uint8_t{3}).put(int32_t{-1}).take()},
      {"a status that waits for no rank", Type::Status,
       base::ByteWriter().put(uint64_t{1}).put(uint8_t{1}).put(int32_t{kRanks}).take()},
      {"a goodbye with more at its end", Type::Goodbye,
       base::ByteWriter().put(uint64_t{0}).put(uint8_t{0}).take()},
      {"a goodbye without its number", Type::Goodbye, one},
      {"readiness with more at its end", Type::Ready, {std::byte{1}, std::byte{1}}},
      {"readiness without its flag", Type::Ready, {}},
      {"readiness that reads some memory", Type::Ready, {std::byte{2}}},
      {"a window's message of no kind", Type::Window, {std::byte{5}}},
      {"a window's message that is cut off", Type::Window, {std::byte{1}}},
      {"a window that is given back and was not there", Type::Window, window(Kind::Closed)},
      {"an unknown message", static_cast<Type>(99), {}},
  };
  for (const auto& [name, type, payload] : bad) {
    const Planes planes = bootstrap::makeLocalControlPlanes(kRanks);
    const auto ranks = makeRanks(planes, {});
    planes[kLiar]->send(0, {recording().channel, static_cast<uint32_t>(type), payload, {}});
    flush(*planes[kLiar], *planes[0]);
    const auto error = ranks[0].asyncError();
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->code(), ErrorCode::Internal) << name << ": " << error->what();
    EXPECT_NE(std::string(error->what()).find(liar()), std::string::npos) << error->what();
  }
  // Each is good the first time.
  for (const auto& [type, payload] : {std::pair(Type::Hello, base::Bytes()),
                                      {Type::View, view({})},
                                      {Type::Window, window(Kind::Join)},
                                      {Type::Window, window(Kind::Opened)}}) {
    const Planes planes = bootstrap::makeLocalControlPlanes(kRanks);
    const auto ranks = makeRanks(planes, {});
    for (const bool twice : {false, true}) {
      planes[kLiar]->send(0, {recording().channel, static_cast<uint32_t>(type), payload, {}});
      flush(*planes[kLiar], *planes[0]);
      EXPECT_EQ(ranks[0].asyncError().has_value(), twice) << static_cast<uint32_t>(type);
    }
  }
}

/// Makes one communicator of planes whose messages are tapped, all ranks at the same time; what
/// became of each.
std::vector<std::string> connectAll(const Planes& planes) {
  std::vector<std::string> outcomes(kRanks);
  std::vector<std::shared_ptr<Impl>> ranks;
  const CommunicatorOptions options{.setupTimeout = 20s, .timeout = 20s};
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(std::make_shared<Impl>(
        communicator::Membership(std::make_shared<communicator::World>(1, planes[rank], nullptr),
                                 {0, 1, 2}, rank, 1),
        communicator::Settings::from(options)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        ranks[rank]->connect(base::Deadline::after(20s));
      } catch (const std::exception& e) {
        outcomes[rank] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST_F(MessageFuzz, SetUpNamesTheLiar) {
  // A bad address, which ends the message, is mostly left to the transports' tests: it is refused
  // only when its rank has not died within a second.
  const auto changedHello = [&](base::Bytes hello) {
    const size_t from = dice_.below(5) == 0 ? 0 : hello.size() / 2;
    const base::Bytes rest(hello.end() - static_cast<ptrdiff_t>(from), hello.end());
    hello.resize(hello.size() - from);
    hello = dice_.mutate(std::move(hello));
    hello.insert(hello.end(), rest.begin(), rest.end());
    return hello;
  };
  int made = 0, refused = 0;
  const int all = cases(100);
  for (int i = 0; i < all && !HasFailure(); ++i) {
    const int liar = static_cast<int>(dice_.below(kRanks));
    const int victim = (liar + 1 + static_cast<int>(dice_.below(kRanks - 1))) % kRanks;
    Planes planes = bootstrap::makeLocalControlPlanes(kRanks);
    planes[liar] = std::make_shared<Tapped>(
        planes[liar], [&](ControlPlane& plane, int to, ControlMessage message) {
          const bool hello = message.type == static_cast<uint32_t>(MessageType::Hello);
          if (message.channel == WindowTable::kChannel || !hello || to != victim)
            return plane.send(to, std::move(message));
          const ControlMessage again{message.channel, message.type, message.payload, {}};
          message.payload = changedHello(std::move(message.payload));
          if (dice_.below(10) == 0) message.descriptors.clear();
          if (dice_.below(10) == 0) message.descriptors.push_back(someDescriptor(dice_));
          plane.send(to, std::move(message));
          if (dice_.below(10) == 0) plane.send(to, {again.channel, again.type, again.payload, {}});
        });
    const auto outcomes = connectAll(planes);
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_TRUE(outcomes[rank].empty() ||
                  outcomes[rank].find("rank " + std::to_string(liar)) != std::string::npos)
          << "rank " << liar << " lied to rank " << victim << "; rank " << rank << ": "
          << outcomes[rank];
    ++(outcomes[victim].empty() ? made : refused);
  }
  EXPECT_GT(made, 0) << "no hello is good: the test tests nothing";
  EXPECT_GT(refused, 0) << "no hello is bad: the test tests nothing";
}

// Whom the survivors agree on is the liar's to say, but they come to an end.
TEST_F(MessageFuzz, ShrinkingEnds) {
  const int all = cases(24);
  for (int i = 0; i < all; ++i) {
    Planes planes = bootstrap::makeLocalControlPlanes(kRanks);
    planes[kLiar] = std::make_shared<Tapped>(
        planes[kLiar], [&](ControlPlane& plane, int to, ControlMessage message) {
          const bool vote = message.type == static_cast<uint32_t>(MessageType::View) ||
                            message.type == static_cast<uint32_t>(MessageType::Decision);
          if (vote) message.payload = dice_.mutate(std::move(message.payload));
          plane.send(to, std::move(message));
        });
    auto ranks = makeRanks(planes, {.setupTimeout = 200ms});
    const auto begin = std::chrono::steady_clock::now();
    runRanks(ranks, [](Communicator& c) {
      try {
        const Communicator rest = c.shrink();
        EXPECT_LE(rest.size(), kRanks);
      } catch (const Error&) {
      }
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  }
}

TEST_F(MessageFuzz, WindowsOfTheOthersStay) {
  const Planes planes = bootstrap::makeLocalControlPlanes(kRanks);
  WindowTable table(*planes[0], nullptr), good(*planes[2], nullptr);
  bootstrap::RecordingListener answers;  // to the liar
  planes[kLiar]->listen(WindowTable::kChannel, &answers);
  std::thread acknowledging([&] {  // so that rank 2 can use its window
    answers.waitMessages(1);
    ControlMessage message{.channel = WindowTable::kChannel, .type = 1};
    message.payload = base::ByteWriter().put(uint64_t{1}).put(uint64_t{kBytes}).take();
    planes[kLiar]->send(2, std::move(message));
  });
  Memory memory = good.allocate(kBytes, nullptr);
  acknowledging.join();
  memory.as<std::byte>()[7] = std::byte{42};
  const auto place = good.locate(memory.data(), kBytes);
  ASSERT_NE(place.window, 0u);
  const auto segment = transports::shm::Segment::create(kBytes, "a window of the liar");
  const int all = cases(3000), open = countDescriptors();
  for (int i = 0; i < all; ++i) {
    ControlMessage message = lie(true);
    message.descriptors.clear();
    if (dice_.below(2) == 0)
      message.descriptors.push_back(dice_.below(4) ? segment.duplicate() : someDescriptor(dice_));
    planes[kLiar]->send(0, std::move(message));
    if (i % 100 == 0) flush(*planes[kLiar], *planes[0]);
  }
  flush(*planes[kLiar], *planes[0]);
  flush(*planes[0], *planes[kLiar]);  // its answers
  const auto found = table.resolve(2, place);
  ASSERT_TRUE(found);
  EXPECT_EQ(found.get()[7], std::byte{42});
  EXPECT_LE(countDescriptors(), open);
  std::set<std::string> kinds;  // "message 0 1": its acknowledgements
  for (const std::string& answer : answers.events()) kinds.insert(answer.substr(0, 11));
  EXPECT_TRUE(kinds.contains("message 0 1") && kinds.contains("message 0 2"))
      << "nothing is good, or nothing bad: the test tests nothing";
  planes[kLiar]->ignore(WindowTable::kChannel);
}

// What is accepted of an inquiry has one meaning.
TEST_F(MessageFuzz, CallsAreReadAsTheyAreWritten) {
  const communicator::CallFacts facts{.collective = plan::Collective::Reduce,
                                      .type = DataType::Float16,
                                      .op = ReduceOp::Avg,
                                      .deterministic = true,
                                      .algorithm = plan::Algorithm::Ring,
                                      .root = 2,
                                      .count = 1000,
                                      .planHash = 99};
  const auto written = [](const communicator::CallFacts& f) {
    base::ByteWriter out;
    f.write(out);
    return out.take();
  };
  int accepted = 0, refused = 0;
  for (int i = 0; i < cases(20'000); ++i) try {
      base::Bytes bytes = dice_.mutate(written(facts));
      base::ByteReader in(bytes);
      const auto read = communicator::CallFacts::read(in);
      EXPECT_NE(read.describe(), "");
      bytes.resize(std::min(bytes.size(), written(read).size()));
      EXPECT_EQ(written(read), bytes);
      ++accepted;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::Refused);
      ++refused;
    }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tutti::tests
