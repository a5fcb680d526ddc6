// Ranks that cannot take part, those that come after them, and those that must not end a job.

#include <sys/resource.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include <tutti/launch.h>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/bootstrap/rendezvous_server.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::BoardProcesses;
using tests::contains;
using tests::countDescriptors;

using Board = BoardProcesses::Board;
using namespace std::chrono_literals;

// Longer than a rendezvous stays for late ranks where nobody says that it cannot take part.
constexpr auto kLate = RendezvousServer::kLinger + 500ms;

std::shared_ptr<ControlPlane> joinAs(int rank, int size, const UniqueId& id) {
  return join({.rank = rank, .size = size, .id = id, .source = "test"},
              base::Deadline::after(kPatience));
}

/// Leaves so many descriptors to this process.
void limitDescriptors(rlim_t spare) {
  const rlim_t limit = static_cast<rlim_t>(countDescriptors()) + spare;
  const rlimit both{limit, limit};
  TUTTI_SYSCALL(::setrlimit(RLIMIT_NOFILE, &both));
}

void expectAll(const std::vector<std::string>& said, const std::string& part) {
  for (size_t rank = 0; rank < said.size(); ++rank)
    EXPECT_TRUE(contains(said[rank], part))
        << part << " in what rank " << rank << " says: " << said[rank];
}

/// Where all ranks meet: at an address that rank 0 opens, or by an id that its process has made.
enum class RendezvousPlace { AtRankZero, ByIdOfRankZero };

UniqueId idOf(RendezvousPlace rendezvous, int rank, Board& board) {
  if (rendezvous == RendezvousPlace::AtRankZero) return UniqueId::at("127.0.0.1:29561");
  if (rank == 0) board.publish(UniqueId::create(UniqueId::Reach::Host));
  return board.awaitId();
}

// Whoever has too few descriptors; the last rank comes late.
TEST(LateRanks, HearWhoCannotTakePart) {
  for (const RendezvousPlace rendezvous :
       {RendezvousPlace::AtRankZero, RendezvousPlace::ByIdOfRankZero})
    for (const int wrong : {0, 1}) {
      SCOPED_TRACE(base::message("rendezvous ", static_cast<int>(rendezvous), ", rank ", wrong));
      BoardProcesses ranks(3, [&](int rank, Board& board) {
        const UniqueId id = idOf(rendezvous, rank, board);
        if (rank == wrong) limitDescriptors(5);
        if (rank == 2) std::this_thread::sleep_for(kLate);
        return greet(*joinAs(rank, 3, id));
      });
      const auto said = ranks.results();
      expectAll(said, "error system");
      expectAll(said, "RLIMIT_NOFILE");
      for (const int rank : {0, 1, 2}) {
        if (rank == wrong) continue;
        EXPECT_TRUE(contains(said[rank], base::message("rank ", wrong, " (pid "))) << said[rank];
      }
    }
}

// The process that has the rendezvous goes on when it is asked to, and when nobody comes.
TEST(LateRanks, AreNotWaitedForForEver) {
  BoardProcesses ranks(2, [](int rank, Board&) {
    limitDescriptors(5);
    std::stop_source stop;
    const std::jthread asks([&] {
      if (rank == 0) std::this_thread::sleep_for(300ms);
      if (rank == 0) stop.request_stop();
    });
    const UniqueId id = UniqueId::at(base::message("127.0.0.1:", 29562 + rank));
    return greet(*join({.rank = 0, .size = 2, .id = id, .source = "test"},
                       base::Deadline::after(rank == 0 ? kPatience : 1000ms),
                       {.stop = stop.get_token()}));
  });
  expectAll(ranks.results(), "RLIMIT_NOFILE");
}

/// What a variable of one rank is, and what all say of it then.
struct Malformed {
  int rank;
  const char *name, *value, *said;
};

// The value has what would clear a terminal.
TEST(LateRanks, HearOfMalformedVariables) {
  const Malformed cases[] = {
      {1, "RANK", "1\x1b[2J", "a rank (pid PID on host HOST): RANK=1?[2J is not a whole number"},
      {1, "RANK", "3", "a rank (pid PID on host HOST): RANK=3 is not below WORLD_SIZE=3"},
      {2, "WORLD_SIZE", "0", "rank 2 (pid PID on host HOST): WORLD_SIZE=0 is not a whole number"},
      {1, "WORLD_SIZE", "", "rank 1 (pid PID on host HOST): RANK=1 is set, and WORLD_SIZE is not"},
      {1, "LOCAL_WORLD_SIZE", "9", "rank 1 (pid PID on host HOST): LOCAL_WORLD_SIZE=9 is not"},
      {0, "WORLD_SIZE", "three", "rank 0 (pid PID on host HOST): WORLD_SIZE=three is not"},
  };
  for (const bool key : {false, true})
    for (const bool asks : {false, true})  // launchedRank(), as programs do before they join
      for (const Malformed& wrong : cases) {
        SCOPED_TRACE(base::message(wrong.said, key ? ", key" : "", asks ? ", asks" : ""));
        BoardProcesses ranks(3, [&](int rank, Board&) {
          ::setenv("RANK", std::to_string(rank).c_str(), 1);
          ::setenv("WORLD_SIZE", "3", 1);
          ::setenv("LOCAL_WORLD_SIZE", "3", 1);
          ::setenv("MASTER_ADDR", "127.0.0.1", 1);
          ::setenv("MASTER_PORT", "29565", 1);
          if (key) ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
          if (rank == wrong.rank) ::setenv(wrong.name, wrong.value, 1);
          if (asks) launchedRank();
          return greet(*join(discover({}), base::Deadline::after(kPatience)));
        });
        const auto said = ranks.results();
        expectAll(said, "error invalid argument");
        for (int rank = 0; rank < 3; ++rank) {
          const std::string text = wrong.said;
          const std::string why = text.substr(text.find("): ") + 3);
          EXPECT_TRUE(contains(said[rank], why)) << said[rank];
          if (rank == wrong.rank) continue;
          const std::string who = text.substr(0, text.find("PID"));
          EXPECT_TRUE(contains(said[rank], who)) << said[rank];
          EXPECT_TRUE(contains(said[rank], " on host ")) << said[rank];
        }
      }
}

// Where nobody can be told it is said at once, and not at a deadline.
TEST(LateRanks, AreNotLookedForWhereNobodyIs) {
  BoardProcesses ranks(1, [](int, Board&) {
    ::setenv("TUTTI_RANK", "none", 1);
    ::setenv("TUTTI_WORLD_SIZE", "2", 1);
    launchedRank();
    return std::string("nothing");
  });
  const std::string said = ranks.results()[0];
  EXPECT_TRUE(contains(said, "error invalid argument: TUTTI_RANK=none is not")) << said;
}

void listenUntil(RendezvousClient& rank, const std::function<bool()>& done) {
  wire::PollSet set;
  while (!done()) {
    rank.checkDeadline("the rendezvous");
    set.clear();
    rank.watch(set);
    set.wait(100);
    rank.advance(set);
  }
}

// When the process gives up, and when all ranks are there.
TEST(LateRanks, ThatHaveNotSaidWhoTheyAreHearWhyToo) {
  for (const bool complete : {false, true}) {
    const Rendezvous point = randomRendezvous();
    std::optional<RendezvousServer> server(std::in_place, point, kPatience);
    RendezvousClient late(point, 1, 2, base::Deadline::after(kPatience));
    std::this_thread::sleep_for(300ms);  // the rendezvous knows of it
    if (complete) {
      RendezvousClient lone(point, 0, 1, base::Deadline::after(kPatience));
      lone.send(Arrival{.info = describeThisProcess(), .listening = wire::randomUnixAddress()});
      listenUntil(lone, [&] { return lone.hasTable(); });
      lone.send(Connected{});
      listenUntil(lone, [&] { return lone.complete(); });
    } else {
      server.reset();
    }
    const auto outcome = tests::outcomeOf([&] { listenUntil(late, [] { return false; }); });
    tests::expectError(
        outcome, ErrorCode::Refused,
        complete ? "the id was used" : "the process that opened the rendezvous gave up");
  }
}

/// A world of two whose rank 0 has arrived; each member of it says that it gives up as it likes.
class Intruders : public testing::Test {
 protected:
  Intruders() { zero_.send(arrival()); }
  static Arrival arrival() {
    return {.info = describeThisProcess(), .listening = wire::randomUnixAddress()};
  }
  static void sayThatItCannot(const Rendezvous& as, int rank) {
    RendezvousClient client(as, rank, 2, base::Deadline::after(kPatience));
    client.giveUp({.code = ErrorCode::System, .text = "cannot"});
  }
  /// What rank 0 hears when rank 1 comes, too.
  std::string afterRankOneHasCome() {
    RendezvousClient one(point_, 1, 2, base::Deadline::after(kPatience));
    one.send(arrival());
    return heard();
  }
  /// By rank 0.
  std::string heard() {
    wire::PollSet set;
    try {
      while (!zero_.hasTable()) {
        zero_.checkDeadline("the table");
        set.clear();
        zero_.watch(set);
        set.wait(100);
        zero_.advance(set);
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "the table";
  }

  const Rendezvous point_ = randomRendezvous();
  RendezvousServer server_{point_, kPatience};
  RendezvousClient zero_{point_, 0, 2, base::Deadline::after(kPatience)};
};

TEST_F(Intruders, WithoutTheSecretEndNoRendezvous) {
  Rendezvous stranger = point_;
  stranger.credentials.secret = wire::randomBytes<32>();
  EXPECT_THROW(sayThatItCannot(stranger, -1), Error);
  EXPECT_EQ(afterRankOneHasCome(), "the table");
}

TEST_F(Intruders, OfAnotherJobWithTheSameKeyEndNoRendezvous) {
  Rendezvous other = point_;
  other.credentials.job = wire::randomBytes<16>();
  for (const int rank : {-1, 1}) sayThatItCannot(other, rank);
  EXPECT_EQ(afterRankOneHasCome(), "the table");
}

TEST_F(Intruders, OfARankThatIsThereEndNoRendezvous) {
  sayThatItCannot(point_, 0);
  EXPECT_EQ(afterRankOneHasCome(), "the table");
}

TEST_F(Intruders, AreNotThoseThatAreMissing) {
  sayThatItCannot(point_, -1);
  const std::string why = heard();
  EXPECT_TRUE(contains(why, "a rank (pid ") && contains(why, "): cannot")) << why;
}

}  // namespace
}  // namespace tutti::bootstrap
