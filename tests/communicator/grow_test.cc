// Communicators that grow, with ranks that are threads: what the grown one can do, that the one it
// comes from stays as it is, and what is refused. grow_processes_test.cc has processes.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/bootstrap/rendezvous.h"
#include "src/wire/secrets.h"
#include "tests/support/collective_checks.h"
#include "tests/support/growing_ranks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;
const CommunicatorOptions kOptions{.setupTimeout = kPatience, .timeout = kPatience};

/// The ranks and as many threads more as make `size`, each with its grown communicator. `before` is
/// called with the id.
void grow(
    std::vector<Communicator>& ranks, int size, CommunicatorOptions options,
    const std::function<void(Communicator&, int rank)>& body,
    const std::function<void(const UniqueId&)>& before = [](const UniqueId&) {}) {
  const int existing = static_cast<int>(ranks.size());
  const UniqueId id = ranks.back().growId();  // any of them may
  before(id);
  std::vector<std::jthread> threads;
  for (int r = existing; r < size; ++r)
    threads.emplace_back([&, r, mine = options]() mutable {
      mine.id = id;
      mine.rank = r;
      mine.size = size;
      Communicator grown = Communicator::create(mine);
      body(grown, r);
    });
  runRanks(ranks, [&](Communicator& c) {
    GrowArgs args{.size = size};
    if (c.rank() == existing - 1) args.id = id;
    Communicator grown = c.grow(args);
    body(grown, c.rank());
    EXPECT_EQ(sumOfRanks(c), existing * (existing + 1) / 2);
  });
}

void checkAllOfIt(Communicator& c) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5003}})
    for (const bool inPlace : {false, true})
      checkAll(c, {.count = count, .root = c.size() - 1, .inPlace = inPlace});
  checkExchanges(c);
}

TEST(Grow, ThreadsJoinThreads) {
  for (const auto& [existing, size] : {std::pair{1, 2}, {2, 5}, {3, 4}}) {
    auto ranks = Communicator::createLocal(existing, kOptions);
    grow(ranks, size, kOptions, [&](Communicator& c, int rank) {
      EXPECT_EQ(c.rank(), rank);
      EXPECT_EQ(c.size(), size);
      checkAllOfIt(c);
    });
  }
}

TEST(Grow, ByEveryTransport) {
  for (const char* transport : {"shm", "tcp", "ucx"}) {
    CommunicatorOptions options = kOptions;
    options.transport = transport;
    auto ranks = Communicator::createLocal(2, options);
    grow(ranks, 3, options, [](Communicator& c, int) {
      checkAll(c, {.count = 70001});
      EXPECT_TRUE(contains(c.describe(), c.rank() == 0 ? "rank 2" : "rank 0"));
    });
  }
}

TEST(Grow, IsDeterministicAndSealedWhereItsRanksAre) {
  CommunicatorOptions options = kOptions;
  options.deterministic = true;
  options.transport = "tcp";
  options.encryption = true;
  options.preSharedKey = "of all ranks";
  auto ranks = Communicator::createLocal(2, options);
  grow(ranks, 3, options, [](Communicator& c, int) {
    EXPECT_TRUE(c.deterministic());
    checkAll(c, {.count = 1000});
  });
}

// What is made of a grown one, and a grown one of what is made of another.
TEST(Grow, TheGrownOneCanDoWhatAnyCan) {
  auto ranks = Communicator::createLocal(2, kOptions);
  grow(ranks, 4, kOptions, [](Communicator& c, int rank) {
    auto half = c.split(rank % 2, 0);
    ASSERT_TRUE(half);
    EXPECT_EQ(sumOfRanks(*half), 3);
    EXPECT_EQ(sumOfRanks(*std::make_unique<Communicator>(c.shrink())), 10);
  });
  grow(ranks, 3, kOptions, [](Communicator& c, int rank) {
    std::optional<UniqueId> id;
    if (rank == 2) id = c.growId(UniqueId::Reach::Host);  // the new rank of the first time
    std::array<std::byte, 128> bytes{};
    if (id) bytes = id->bytes;
    c.broadcast({.send = bytes.data(),
                 .recv = bytes.data(),
                 .count = bytes.size(),
                 .type = DataType::UInt8,
                 .root = 2});
    std::jthread fourth;
    if (rank == 0)
      fourth = std::jthread([&] {
        CommunicatorOptions options = kOptions;
        options.id = UniqueId{bytes};
        options.rank = 3;
        options.size = 4;
        Communicator last = Communicator::create(options);
        EXPECT_EQ(sumOfRanks(last), 10);
      });
    Communicator larger = c.grow({.size = 4, .id = id});
    EXPECT_EQ(larger.rank(), rank);
    EXPECT_EQ(sumOfRanks(larger), 10);
  });
}

TEST(Grow, WhileOperationsAreUnderWay) {
  auto ranks = Communicator::createLocal(2, kOptions);
  std::vector<std::vector<float>> x(2, std::vector<float>(100'000, 1.0f));
  std::vector<Stream> streams(2);
  for (Communicator& c : ranks)  // both have to be under way before one is waited for
    for (int i = 0; i < 3; ++i) {
      auto& mine = x[static_cast<size_t>(c.rank())];
      c.allReduce({.send = mine.data(), .recv = mine.data(), .count = mine.size()},
                  streams[static_cast<size_t>(c.rank())]);
    }
  grow(ranks, 3, kOptions, [](Communicator& c, int) { EXPECT_EQ(sumOfRanks(c), 6); });
  for (size_t r = 0; r < 2; ++r) {
    streams[r].synchronize();
    EXPECT_EQ(x[r].back(), 8.0f);
  }
}

// The one that grows may go before the grown one, and the other way round.
TEST(Grow, EitherMayGoFirst) {
  for (const bool oldFirst : {false, true}) {
    auto ranks = Communicator::createLocal(2, kOptions);
    const UniqueId id = ranks[0].growId();
    std::jthread third([&] {
      CommunicatorOptions options = kOptions;
      options.id = id;
      options.rank = 2;
      options.size = 3;
      Communicator c = Communicator::create(options);
      EXPECT_EQ(sumOfRanks(c), 6);
    });
    runRanks(ranks, [&](Communicator& c) {
      GrowArgs args{.size = 3};
      if (c.rank() == 0) args.id = id;
      std::optional<Communicator> grown = c.grow(args);
      if (oldFirst) {
        { const Communicator gone = std::move(c); }
        EXPECT_EQ(sumOfRanks(*grown), 6);
        c = std::move(*grown);
      } else {
        EXPECT_EQ(sumOfRanks(*grown), 6);
        grown.reset();
        EXPECT_EQ(sumOfRanks(c), 3);
      }
    });
  }
}

TEST(GrowArguments, ThatCannotBeRightAreRefused) {
  auto ranks = Communicator::createLocal(2, kOptions);
  const UniqueId id = ranks[0].growId();
  for (const int size : {-1, 0, 1, 2, 16385}) {
    const Outcome outcome = outcomeOf([&] { ranks[0].grow({.size = size, .id = id}); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "from 2 ranks to " + std::to_string(size))) << outcome.text;
  }
  const Outcome again = outcomeOf([&] { ranks[0].growId(); });
  EXPECT_EQ(again.code, ErrorCode::InvalidUsage) << again.text;
  for (const UniqueId& other : {UniqueId::create(), ranks[1].growId(), UniqueId{}}) {
    const Outcome outcome = outcomeOf([&] { ranks[0].grow({.size = 3, .id = other}); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
  }
  {
    Group group;
    EXPECT_EQ(outcomeOf([&] { ranks[0].grow({.size = 3, .id = id}); }).code,
              ErrorCode::InvalidUsage);
  }
  runRanks(ranks, [](Communicator& c) { EXPECT_EQ(sumOfRanks(c), 3); });
}

TEST(GrowArguments, AnIdIsGivenByOneRankAndServesOnce) {
  auto ranks = Communicator::createLocal(2, kOptions);
  const auto growAll = [&](const std::function<std::optional<UniqueId>(int rank)>& idOf,
                           ErrorCode code, const std::string& part) {
    runRanks(ranks, [&](Communicator& c) {
      const Outcome outcome = outcomeOf([&] { c.grow({.size = 3, .id = idOf(c.rank())}); });
      EXPECT_EQ(outcome.code, code) << outcome.text;
      EXPECT_TRUE(contains(outcome.text, part)) << outcome.text;
      EXPECT_EQ(sumOfRanks(c), 3);
    });
  };
  growAll([](int) { return std::nullopt; }, ErrorCode::InvalidArgument, "has no id");
  const UniqueId ids[] = {ranks[0].growId(), ranks[1].growId()};
  growAll([&](int rank) { return ids[rank]; }, ErrorCode::Mismatch, "both give it an id");
  const Outcome used = outcomeOf([&] { ranks[0].grow({.size = 3, .id = ids[0]}); });
  EXPECT_EQ(used.code, ErrorCode::InvalidArgument) << used.text;
  ranks[0].growId();  // the others were used
}

// Also when the others come later.
TEST(GrowNewRanks, ThatSpoilItBeforeTheOthersComeAreNamedToThem) {
  auto ranks = Communicator::createLocal(2, kOptions);
  CommunicatorOptions options = kOptions;
  options.id = ranks[0].growId();
  options.rank = 1;
  options.size = 3;
  EXPECT_EQ(outcomeOf([&] { Communicator::create(options); }).code, ErrorCode::Refused);
  runRanks(ranks, [&](Communicator& c) {
    GrowArgs args{.size = 3};
    if (c.rank() == 0) args.id = options.id;
    const Outcome outcome = outcomeOf([&] { c.grow(args); });
    EXPECT_EQ(outcome.code, ErrorCode::Refused) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "one of its 2 ranks")) << outcome.text;
    EXPECT_EQ(sumOfRanks(c), 3);
  });
}

// They have the id of a growing that is over. So has an existing rank that gives it again.
TEST(GrowNewRanks, ThatComeAfterwardsAreRefused) {
  auto ranks = Communicator::createLocal(2, kOptions);
  CommunicatorOptions options = kOptions;
  grow(
      ranks, 3, kOptions, [](Communicator& c, int) { EXPECT_EQ(sumOfRanks(c), 6); },
      [&](const UniqueId& id) { options.id = id; });
  for (const int rank : {2, 3}) {
    options.rank = rank;
    options.size = rank + 1;
    const Outcome outcome = outcomeOf([&] { Communicator::create(options); });
    EXPECT_EQ(outcome.code, ErrorCode::Refused) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "was used")) << outcome.text;
  }
  const Outcome again = outcomeOf([&] { ranks[1].grow({.size = 3, .id = options.id}); });
  EXPECT_EQ(again.code, ErrorCode::InvalidArgument) << again.text;
}

/// One is silent, one says what no rank says, and one guesses the secret.
TEST(GrowNewRanks, AreNoStrangers) {
  auto ranks = Communicator::createLocal(2, kOptions);
  std::vector<base::FileDescriptor> sockets;
  grow(
      ranks, 4, kOptions, [](Communicator& c, int) { EXPECT_EQ(sumOfRanks(c), 10); },
      [&](const UniqueId& id) {
        bootstrap::Rendezvous point = bootstrap::decode(id);
        for (const auto& address : {point.address, point.network.value_or(point.address)})
          for (const std::string& text : {std::string(), std::string(500, 'x')}) {
            sockets.push_back(wire::startConnecting(address).socket);
            ::send(sockets.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
          }
        point.credentials.secret = wire::randomBytes<32>();
        CommunicatorOptions guess = kOptions;
        guess.id = bootstrap::encode(point);
        guess.rank = 2;
        guess.size = 4;
        EXPECT_EQ(outcomeOf([&] { Communicator::create(guess); }).code, ErrorCode::Refused);
      });
}

TEST(GrowExistingRanks, ThatAreLateAreReportedAndWaitedFor) {
  std::mutex mutex;
  std::string log;
  setLogSink([&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    log += std::string(line) + "\n";
  });
  auto ranks = Communicator::createLocal(2, {.setupTimeout = kPatience, .straggler = 300ms});
  const UniqueId id = ranks[0].growId();
  std::jthread third([&] {
    Communicator c = Communicator::create(
        {.id = id, .rank = 2, .size = 3, .setupTimeout = kPatience, .timeout = kPatience});
    EXPECT_EQ(sumOfRanks(c), 6);
  });
  runRanks(ranks, [&](Communicator& c) {
    if (c.rank() == 1) std::this_thread::sleep_for(1500ms);
    GrowArgs args{.size = 3};
    if (c.rank() == 0) args.id = id;
    Communicator grown = c.grow(args);
    EXPECT_EQ(sumOfRanks(grown), 6);
  });
  setLogSink({});
  const std::lock_guard lock(mutex);
  EXPECT_TRUE(contains(log, "straggler: rank 1")) << log;
}

TEST(GrowEnds, WhenTheIdHasExpired) {
  auto ranks = Communicator::createLocal(2, {.setupTimeout = 300ms, .timeout = kPatience});
  const UniqueId id = ranks[1].growId();
  std::this_thread::sleep_for(800ms);
  runRanks(ranks, [&](Communicator& c) {
    GrowArgs args{.size = 3};
    if (c.rank() == 1) args.id = id;
    const Outcome outcome = outcomeOf([&] { c.grow(args); });
    EXPECT_EQ(outcome.code, ErrorCode::Timeout) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "id of rank 1")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "not complete after 300 ms")) << outcome.text;
    EXPECT_EQ(sumOfRanks(c), 3);
  });
  ranks[1].growId();
}

TEST(GrowEnds, WithTheCommunicatorThatWasToGrow) {
  auto ranks = Communicator::createLocal(2, kOptions);
  const UniqueId id = ranks[0].growId();
  std::jthread third([&] {
    const Outcome outcome = outcomeOf(
        [&] { Communicator::create({.id = id, .rank = 2, .size = 3, .setupTimeout = kPatience}); });
    EXPECT_EQ(outcome.code, ErrorCode::Refused) << outcome.text;
  });
  std::this_thread::sleep_for(300ms);
  ranks.clear();
}

}  // namespace
}  // namespace tutti::tests
