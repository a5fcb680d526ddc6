// Memory that ranks of one host read from each other where it lies: that it is used and right, who
// is refused, and that nothing is taken from a rank whose operation has failed. This program has a
// process_vm_readv of its own, which the library calls, so that reads can be counted, held up and
// refused.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>

#include <tutti/tutti.h>

#include "src/communicator/inspection.h"
#include "src/plan/plan.h"
#include "tests/communicator/transfers.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/sanitized.h"

namespace {

/// Reads of data, beside those that only look for a nonce or at the ends of a buffer.
std::atomic<int> dataReads{0};
/// Called before a read of so many bytes; what it returns is the errno, or 0 to go on.
std::function<int(size_t bytes)> beforeRead;

}  // namespace

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* to, unsigned long toCount,
                                    const iovec* from, unsigned long fromCount,
                                    unsigned long flags) {
  size_t bytes = 0;
  for (unsigned long i = 0; i < fromCount; ++i) bytes += from[i].iov_len;
  if (bytes > 64) ++dataReads;
  if (const int error = beforeRead ? beforeRead(bytes) : 0) {
    errno = error;
    return -1;
  }
  return ::syscall(SYS_process_vm_readv, process, to, toCount, from, fromCount, flags);
}

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using communicator::Inspection;

constexpr size_t kLong = 1 << 20;   // of a transfer, or of a block: surely long enough
constexpr size_t kCount = 300'001;  // of floats

/// Of a read of data; the test sets what is done until the object's end.
struct BeforeReads {
  explicit BeforeReads(std::function<int(size_t)> action) { beforeRead = std::move(action); }
  ~BeforeReads() { beforeRead = nullptr; }
};

plan::Protocol protocolOf(Communicator& c) { return Inspection::lastSpec(c)->protocol; }

std::vector<Communicator> makeRanks(int size, const char* algorithm = "") {
  return Communicator::createLocal(size, {.algorithm = algorithm});
}

/// Memory of the process that others cannot read by any call. Null where the system has none.
std::shared_ptr<float> secretMemory(size_t count) {
  const int file = static_cast<int>(::syscall(SYS_memfd_secret, 0));
  if (file < 0) return nullptr;
  const size_t bytes = count * sizeof(float);
  void* const data = ::ftruncate(file, static_cast<off_t>(bytes)) == 0
                         ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                         : MAP_FAILED;
  ::close(file);
  if (data == MAP_FAILED) return nullptr;
  return {static_cast<float*>(data), [bytes](float* p) { ::munmap(p, bytes); }};
}

class Attached : public testing::TestWithParam<int> {};

// Forced, so that a call of any size is attached.
TEST_P(Attached, EverySizeIsRight) {
  auto ranks = makeRanks(GetParam(), "attached");
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, kCount * sizeof(float) * static_cast<size_t>(c.size()) + 192);
    for (const size_t count : {size_t{1}, size_t{63}, size_t{8191}, size_t{65537}, kCount})
      for (const bool inPlace : {false, true}) {
        if (kSanitized && count > 65537) continue;
        for (const bool windowsSomewhere : {false, true}) {
          const bool isWindow = windowsSomewhere && c.rank() % 2 == 0;
          checkAll(c, {.count = count,
                       .root = static_cast<int>(count) % c.size(),
                       .inPlace = inPlace,
                       .misalign = inPlace ? 4U : 0U,
                       .windows = isWindow ? &windows : nullptr});
        }
      }
  });
}

TEST_P(Attached, EveryTypeAndReductionIsRight) {
  auto ranks = makeRanks(GetParam(), "attached");
  runRanks(ranks, [](Communicator& c) {
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op)
        if (isDefined(static_cast<ReduceOp>(op), static_cast<DataType>(type)))
          checkAll(c, {.type = static_cast<DataType>(type),
                       .op = static_cast<ReduceOp>(op),
                       .count = 12'345,
                       .inPlace = op % 2 == 1});
  });
}

TEST_P(Attached, ExchangesAreRight) {
  auto ranks = makeRanks(GetParam(), "attached");
  runRanks(ranks, checkExchanges);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Attached, testing::Values(2, 3, kSanitized ? 4 : 5));

TEST(AttachedMemory, IsReadByCallsThatAreLongEnough) {
  auto ranks = makeRanks(2);
  runRanks(ranks, [](Communicator& c) {
    std::vector<float> x(4 * kLong, static_cast<float>(c.rank())), y(8 * kLong);
    for (const size_t count : {size_t{16}, x.size()}) {
      c.allGather({.send = x.data(), .recv = y.data(), .count = count});
      EXPECT_EQ(protocolOf(c), count == 16 ? plan::Protocol::Simple : plan::Protocol::Attached);
      EXPECT_EQ(y[count - 1], 0.0f);
      EXPECT_EQ(y[2 * count - 1], 1.0f);
    }
  });
}

TEST(AttachedMemory, IsReadWhereNotAllIsMapped) {
  auto ranks = makeRanks(2, "attached");
  runRanks(ranks, [](Communicator& c) {
    EXPECT_NE(c.describe().find("ranks of one host read each other's memory"), std::string::npos)
        << c.describe();
    std::vector<float> ordinary(kLong);
    Memory window = c.allocate(kLong * sizeof(float));
    for (const int inWindows : {0, 1, 2}) {
      float* const x = c.rank() < inWindows ? window.as<float>() : ordinary.data();
      std::fill_n(x, kLong, 1.0f);
      c.allReduce({.send = x, .recv = x, .count = kLong});
      EXPECT_EQ(protocolOf(c), inWindows == 2 ? plan::Protocol::Mapped : plan::Protocol::Attached);
      EXPECT_EQ(x[kLong - 1], 2.0f);
    }
    // Blocks of their own size.
    const size_t counts[] = {kLong / 2, kLong};
    std::vector<float> all(2 * kLong, 1.0f);
    c.reduceScatterV({.send = all.data(), .recv = ordinary.data(), .counts = counts});
    EXPECT_EQ(protocolOf(c), plan::Protocol::Attached);
    EXPECT_EQ(ordinary[counts[c.rank()] - 1], 2.0f);
  });
}

TEST(AttachedMemory, IsNotReadWhereOneRankOfAllIsRefused) {
  int connections = 0;
  const auto refused = [&](size_t bytes) {
    return bytes <= 64 && ++connections == 4 ? EPERM : 0;  // of the six between three
  };
  auto ranks = [&] {
    const BeforeReads reads(refused);
    return makeRanks(3);
  }();
  EXPECT_EQ(connections, 6);
  dataReads = 0;
  runRanks(ranks, [](Communicator& c) {
    EXPECT_FALSE(Inspection::topology(c).attached);
    EXPECT_EQ(c.describe().find("read each other"), std::string::npos) << c.describe();
    checkAll(c, {.count = kCount});
    EXPECT_EQ(protocolOf(c), plan::Protocol::Simple);
    const Bytes mine = content(static_cast<uint64_t>(c.rank()), kLong);
    Bytes theirs(kLong);
    c.rank() == 0 ? give(c, mine, 1) : c.rank() == 1 ? take(c, theirs, 0) : void();
    EXPECT_EQ(theirs, c.rank() == 1 ? content(0, kLong) : Bytes(kLong));
  });
  EXPECT_EQ(dataReads, 0);
}

TEST(AttachedMemory, ThatCannotBeReadIsStaged) {
  const auto secret = secretMemory(2 * kLong);
  if (!secret) GTEST_SKIP() << "the system has no memfd_secret, or too little locked memory";
  auto ranks = makeRanks(2, "attached");
  runRanks(ranks, [&](Communicator& c) {
    std::vector<float> ordinary(2 * kLong);
    float* const x = c.rank() == 1 ? secret.get() : ordinary.data();
    std::fill_n(x, ordinary.size(), 1.0f);
    c.allReduce({.send = x, .recv = x, .count = ordinary.size()});
    EXPECT_EQ(protocolOf(c), plan::Protocol::Simple);
    EXPECT_EQ(x[ordinary.size() - 1], 2.0f);
    const int peer = 1 - c.rank();
    c.rank() == 1
        ? c.send({.send = x, .count = ordinary.size(), .type = DataType::Float32, .peer = peer})
        : c.receive({.recv = x, .count = ordinary.size(), .type = DataType::Float32, .peer = peer});
    EXPECT_EQ(x[0], 2.0f);
  });
}

TEST(AttachedTransfers, AreReadOnceAndInOrder) {
  auto ranks = makeRanks(2);
  dataReads = 0;
  // Short ones and long ones, with ends that are as short as an offer.
  const size_t sizes[] = {8, kLong, 0, 3 * kLong + 8, 65'536 + 8, kLong + 1, 8, 262'144, 262'143};
  runRanks(ranks, [&](Communicator& c) {
    const auto peer = 1 - c.rank();
    std::vector<Bytes> out, in;
    for (const size_t bytes : sizes) {
      out.push_back(content(out.size() * 2 + static_cast<size_t>(c.rank()), bytes));
      in.emplace_back(bytes);
    }
    {
      Group group;
      for (size_t i = 0; i < out.size(); ++i) {
        give(c, out[i], peer);
        take(c, in[i], peer);
      }
      group.end();
    }
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_EQ(in[i], content(i * 2 + static_cast<size_t>(peer), sizes[i])) << i;
  });
  EXPECT_EQ(dataReads, 2 * 4);  // of those of 256 KiB or more
}

// In windows they are copied from there.
TEST(AttachedTransfers, AreNotReadWhereTheyAreMapped) {
  auto ranks = makeRanks(2);
  dataReads = 0;
  runRanks(ranks, [](Communicator& c) {
    Memory window = c.allocate(kLong);
    const Bytes mine = content(static_cast<uint64_t>(c.rank()), kLong);
    std::ranges::copy(mine, window.as<uint8_t>());
    Bytes theirs(kLong);
    {
      Group group;
      c.send({.send = window.as<uint8_t>(), .count = kLong, .peer = 1 - c.rank()});
      take(c, theirs, 1 - c.rank());
      group.end();
    }
    EXPECT_EQ(theirs, content(static_cast<uint64_t>(1 - c.rank()), kLong));
  });
  EXPECT_EQ(dataReads, 0);
}

TEST(AttachedTransfers, AreTheSendersUntilTheyAreRead) {
  auto ranks = makeRanks(2);
  const BeforeReads reads([](size_t bytes) {
    if (bytes > 64) std::this_thread::sleep_for(20ms);
    return 0;
  });
  runRanks(ranks, [](Communicator& c) {
    Bytes data = c.rank() == 0 ? content(0, 2 * kLong) : Bytes(2 * kLong);
    c.rank() == 0 ? give(c, data, 1) : take(c, data, 0);
    if (c.rank() == 0) data.assign(data.size(), 0xa5);  // its sender's again
    EXPECT_EQ(data, c.rank() == 0 ? Bytes(data.size(), 0xa5) : content(0, 2 * kLong));
  });
}

TEST(AttachedTransfers, ThatDifferMismatch) {
  for (const size_t theirs : {kLong - 1, kLong + 1, size_t{8}, size_t{0}}) {
    auto ranks = makeRanks(2);
    runRanks(ranks, [&](Communicator& c) {
      Bytes data(2 * kLong, 0xa5);
      data.resize(c.rank() == 0 ? kLong : theirs);
      const Outcome outcome =
          outcomeOf([&] { c.rank() == 0 ? give(c, data, 1) : take(c, data, 0); });
      expectError(outcome, ErrorCode::Mismatch, std::to_string(kLong));
      EXPECT_EQ(data, Bytes(data.size(), 0xa5));
    });
  }
}

TEST(AttachedTransfers, WhoseReceiverLeavesEnd) {
  auto ranks = makeRanks(2);
  std::thread leaver([mine = std::move(ranks[1])]() mutable { Communicator(std::move(mine)); });
  const Bytes data(kLong);
  expectError(outcomeOf([&] { give(ranks[0], data, 1); }), ErrorCode::PeerLost, "rank 1");
  leaver.join();
}

// As when the news of a peer's end is late: nothing is folded twice, though it is in place.
TEST(AttachedFaults, AReadThatFailsIsTriedAgain) {
  auto ranks = makeRanks(3, "attached");
  std::atomic<int> turn{0};
  const BeforeReads reads([&](size_t bytes) { return bytes > 64 && ++turn % 3 == 0 ? EFAULT : 0; });
  runRanks(ranks, [](Communicator& c) {
    for (const bool inPlace : {false, true}) checkAll(c, {.count = kCount / 2, .inPlace = inPlace});
    checkExchanges(c);
  });
  EXPECT_GT(turn, 0);
}

TEST(AttachedFaults, MemoryThatStaysUnreadableIsNamed) {
  auto ranks = makeRanks(2);
  const BeforeReads reads([](size_t bytes) { return bytes > 64 ? EFAULT : 0; });
  runRanks(ranks, [](Communicator& c) {
    Bytes data(kLong);
    const Outcome outcome = outcomeOf([&] { c.rank() == 0 ? give(c, data, 1) : take(c, data, 0); });
    expectError(outcome, ErrorCode::System, "of rank 0: Bad address");
    expectError(outcome, ErrorCode::System, "TUTTI_SHM_ATTACH=0");
  });
}

// The sender's call ends while its memory is about to be read; its program writes to that memory.
TEST(AttachedFaults, NothingIsTakenFromAFailedCall) {
  auto ranks = makeRanks(2);
  std::latch isRead(1), hasFailed(1);
  std::atomic<bool> first{true};
  const BeforeReads reads([&](size_t bytes) {
    if (bytes <= 64 || !first.exchange(false)) return 0;
    isRead.count_down();
    hasFailed.wait();
    return 0;
  });
  // While it reads it does not look whether its communicator has failed.
  std::thread receiver([&] {
    Bytes data(kLong);
    const Outcome outcome = outcomeOf([&] { take(ranks[1], data, 0); });
    expectError(outcome, ErrorCode::Aborted, "");
  });
  std::thread aborter([&] {
    isRead.wait();
    ranks[0].abort();
  });
  Bytes data(kLong, 1);
  expectError(outcomeOf([&] { give(ranks[0], data, 1); }), ErrorCode::Aborted, "");
  data.assign(kLong, 2);
  hasFailed.count_down();
  aborter.join();
  receiver.join();
}

int repeatUntilKilled(const RankProcesses::Context& context) {
  Communicator c = context.join({.algorithm = "attached"});
  std::vector<float> x(4 * kLong, 1.0f), y(x.size());
  c.allReduce({.send = x.data(), .recv = y.data(), .count = x.size()});
  if (protocolOf(c) != plan::Protocol::Attached) return 1;
  context.say("attached");
  try {
    while (true) {
      Group group;
      c.send({.send = x.data(), .count = x.size(), .peer = (c.rank() + 1) % c.size()});
      c.receive({.recv = y.data(), .count = y.size(), .peer = (c.rank() + 2) % c.size()});
      group.end();
      c.allReduce({.send = x.data(), .recv = y.data(), .count = x.size()});
    }
  } catch (const Error& e) {
    context.say(std::string(toString(e.code())) + "|" + e.what());
  }
  return 0;
}

TEST(AttachedFaults, OfAKilledProcessAreTheFailureThatNamesIt) {
  for (int kill = 0; kill < 4; ++kill) {
    RankProcesses ranks(3, repeatUntilKilled);
    for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "attached", 30s)) << ranks.output(r);
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * kill));
    ranks.signal(1, SIGKILL);
    for (const int r : {0, 2}) {
      ASSERT_EQ(ranks.wait(r, 20s), 0) << ranks.output(r);
      EXPECT_NE(ranks.output(r).find("peer lost|rank 1 (pid "), std::string::npos)
          << ranks.output(r);
    }
  }
}

int checkInProcess(const RankProcesses::Context& context) {
  if (context.rank == 1 && ::getenv("TEST_ONE_MAY_NOT")) beforeRead = [](size_t) { return EPERM; };
  Communicator c = context.join({.algorithm = "attached"});
  for (const bool inPlace : {false, true}) checkAll(c, {.count = kCount, .inPlace = inPlace});
  checkExchanges(c);
  std::vector<float> x(4 * kLong, 1.0f);
  c.allReduce({.send = x.data(), .recv = x.data(), .count = x.size()});
  const bool isAttached = protocolOf(c) == plan::Protocol::Attached;
  return isAttached != (::getenv("TEST_ONE_MAY_NOT") != nullptr) && !testing::Test::HasFailure()
             ? 0
             : 1;
}

TEST(AttachedProcesses, ReadEachOther) {
  RankProcesses ranks(3, checkInProcess);
  EXPECT_TRUE(ranks.allSucceed(120s));
}

TEST(AttachedProcesses, DoNotWhereOneMayNot) {
  ::setenv("TEST_ONE_MAY_NOT", "1", 1);
  RankProcesses ranks(3, checkInProcess);
  ::unsetenv("TEST_ONE_MAY_NOT");
  EXPECT_TRUE(ranks.allSucceed(120s));
}

}  // namespace
}  // namespace tutti::tests
