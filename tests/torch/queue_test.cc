// The job queue and the messages of the backend `tutti`, without PyTorch: what waits for what, and
// senders that lie or are lost.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "src/python/tutti/torch/messages.h"
#include "src/python/tutti/torch/tasks.h"

namespace tutti_torch {
namespace {

using namespace std::chrono_literals;
using tutti::Communicator;

constexpr milliseconds kLong = 30s;  // for what never takes so long

Clock::time_point soon() { return Clock::now() + kLong; }

bool eventually(const std::atomic<bool>& flag) {
  for (const auto until = soon(); !flag && Clock::now() < until;) std::this_thread::yield();
  return flag;
}

std::shared_ptr<QueuedJob> jobOf(std::function<void()> body) {
  return std::make_shared<QueuedJob>(kLong, std::move(body));
}

// While the end of a job is told it is neither done nor queued. Who waits for it then must not run
// the job behind it, which waits for that thread here.
TEST(JobQueue, HelpRunsNothingBehindTheJob) {
  for (int round = 0; round < 50; ++round) {
    const auto queue = std::make_shared<JobQueue>();
    std::atomic<bool> runs{false}, queued{false}, ends{false}, helped{false}, wasRight{false};
    const auto first = jobOf([&] {
      runs = true;
      EXPECT_TRUE(eventually(queued));
    });
    first->beforeEnd([&] {
      ends = true;
      eventually(helped);
    });
    const auto second = jobOf([&] {
      for (const auto until = Clock::now() + 1s; !helped && Clock::now() < until;)
        std::this_thread::yield();
      wasRight = helped.load();
    });
    std::thread other([&] { queue->runOrPush(first); });
    EXPECT_TRUE(eventually(runs));
    queue->push(second);
    queued = true;
    for (const auto until = soon(); !ends && Clock::now() < until;) {
    }
    queue->help(*first);
    helped = true;
    other.join();
    EXPECT_TRUE(second->waitUntil(soon()));
    queue->close();
    ASSERT_TRUE(wasRight) << "round " << round;
  }
}

TEST(JobQueue, CloseWaitsForAJobOnAThreadThatIsNotItsOwn) {
  const auto queue = std::make_shared<JobQueue>();
  std::atomic<bool> runs{false}, ended{false};
  std::thread other([&] {
    queue->runOrPush(jobOf([&] {
      runs = true;
      std::this_thread::sleep_for(50ms);
      ended = true;
    }));
  });
  ASSERT_TRUE(eventually(runs));
  queue->close();
  EXPECT_TRUE(ended);
  other.join();
  const auto late = jobOf([] {});
  queue->push(late);
  EXPECT_TRUE(late->isDone() && late->error());
}

TEST(JobQueue, WhatFailsBeforeTheEndIsTheError) {
  const auto queue = std::make_shared<JobQueue>();
  const auto job = jobOf([] {}), next = jobOf([] {});
  bool heard = false;
  job->beforeEnd([] { throw std::runtime_error("no way back"); });
  job->whenDone([&] { heard = true; });
  queue->push(job);
  queue->push(next);
  EXPECT_TRUE(job->waitUntil(soon()) && job->error());
  EXPECT_TRUE(next->waitUntil(soon()) && !next->error());
  queue->close();
  EXPECT_TRUE(heard);
}

/// The channels between ranks of this process.
class Channels {
 public:
  /// The end of the sender, 0, or the receiver, 1. Each can be taken once.
  Communicator take(int sender, int receiver, int end) {
    std::lock_guard lock(mutex_);
    auto& pair = pairs_[{sender, receiver}];
    if (pair.empty()) pair = Communicator::createLocal(2, {.timeout = kLong});
    return std::move(pair.at(static_cast<size_t>(end)));
  }
  MessageBoard::Open openOf(int rank) {
    return [this, rank](int sender, int receiver, std::stop_token) {
      return take(sender, receiver, rank == sender ? 0 : 1);
    };
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::vector<Communicator>> pairs_;
};

using TransferPtr = std::shared_ptr<MessageTransfer>;

template <class T>
TransferPtr transferOf(int peer, std::vector<T>& data, int64_t tag = 0) {
  return std::make_shared<MessageTransfer>(kLong, peer, Label{.tag = tag}, data.data(),
                                           data.size() * sizeof(T));
}

bool endsWell(const TransferPtr& transfer) {
  return transfer->waitUntil(soon()) && !transfer->error();
}

bool fails(const TransferPtr& transfer) { return transfer->waitUntil(soon()) && transfer->error(); }

TEST(Messages, LongOnesComeAsideAndDirectly) {
  Channels channels;
  MessageBoard zero(0, 2, channels.openOf(0)), one(1, 2, channels.openOf(1));
  for (const size_t count : {size_t{1}, size_t{1000}, (size_t{40} << 20) + 3}) {
    std::vector<uint8_t> sent(count), aside(count), direct(count);
    for (size_t i = 0; i < count; ++i) sent[i] = static_cast<uint8_t>(i * 7 + i / 251);
    const auto first = transferOf(1, sent, 1), second = transferOf(1, sent, 2);
    zero.send(first);
    zero.send(second);
    const auto later = transferOf(0, direct, 2), earlier = transferOf(0, aside, 1);
    one.receive(later);  // the first goes aside
    ASSERT_TRUE(endsWell(later));
    one.receive(earlier);
    ASSERT_TRUE(endsWell(earlier) && endsWell(first) && endsWell(second));
    EXPECT_TRUE(sent == aside && sent == direct);
  }
}

// A header as messages.cc writes it, with a size that no memory holds, and nothing behind it.
TEST(Messages, ASizeThatNoMemoryHoldsLosesItsSenderAlone) {
  Channels channels;
  MessageBoard board(0, 3, channels.openOf(0));
  Communicator liar = channels.take(1, 0, 0), honest = channels.take(2, 0, 0);
  const struct {
    int64_t tag, kind;
    uint64_t bytes;
  } header{5, 0, uint64_t{1} << 60};
  std::array<std::byte, 256> raw{};
  std::memcpy(raw.data(), &header, sizeof(header));
  std::vector<int> data(1), any(1);
  const auto matching = transferOf(1, data, 5), other = transferOf(1, data, 6),
             fromAny = transferOf(MessageTransfer::kAnyRank, any, 7);
  board.receive(matching);
  board.receive(other);
  board.receive(fromAny);
  liar.send({.send = raw.data(), .count = raw.size(), .type = tutti::DataType::UInt8, .peer = 1});
  liar.abort();
  EXPECT_TRUE(fails(matching));
  EXPECT_TRUE(fails(other));
  const auto later = transferOf(1, data, 8);
  board.receive(later);
  EXPECT_TRUE(fails(later));
  EXPECT_FALSE(fromAny->isDone());
  honest.abort();
  EXPECT_TRUE(fails(fromAny));
}

TEST(Messages, AnyRankThatLivesIsHeard) {
  Channels channels;
  MessageBoard zero(0, 3, channels.openOf(0)), two(2, 3, channels.openOf(2));
  Communicator lost = channels.take(1, 0, 0);
  std::vector<int> data(1), any(1), sent{42};
  const auto fromAny = transferOf(MessageTransfer::kAnyRank, any),
             fromLost = transferOf(1, data, 9);
  zero.receive(fromAny);
  zero.receive(fromLost);
  lost.abort();
  ASSERT_TRUE(fails(fromLost));
  const auto sending = transferOf(0, sent);
  two.send(sending);
  ASSERT_TRUE(endsWell(fromAny) && endsWell(sending));
  EXPECT_EQ(any[0], 42);
  EXPECT_EQ(fromAny->peer, 2);
}

// As a callback in Python does, which waits for the interpreter's lock.
TEST(Messages, WhatHearsOfAnEndMayWaitForAnother) {
  Channels channels;
  MessageBoard zero(0, 2, channels.openOf(0)), one(1, 2, channels.openOf(1));
  std::vector<int> first(1), second(1), sent{1};
  const auto a = transferOf(0, first, 1), b = transferOf(0, second, 2);
  std::atomic<bool> heard{false}, inTime{false};
  a->whenDone([&] {
    inTime = b->waitUntil(Clock::now() + 5s);
    heard = true;
  });
  one.receive(a);
  one.receive(b);
  const auto toA = transferOf(1, sent, 1), toB = transferOf(1, sent, 2);
  zero.send(toA);
  ASSERT_TRUE(endsWell(a));
  zero.send(toB);
  EXPECT_TRUE(endsWell(b));
  EXPECT_TRUE(eventually(heard));
  EXPECT_TRUE(inTime);
}

// A message that cannot be brought to its place fails its receive, and no other.
TEST(Messages, WhatFailsBeforeTheEndIsTheError) {
  for (const size_t count : {size_t{1}, size_t{1} << 16}) {
    Channels channels;
    MessageBoard zero(0, 2, channels.openOf(0)), one(1, 2, channels.openOf(1));
    std::vector<int> data(count), later(1), sent(count, 42), sentLater{43};
    const auto receiving = transferOf(0, data, 1), receivingLater = transferOf(0, later, 2);
    receiving->beforeEnd([] { throw std::runtime_error("no way back"); });
    one.receive(receiving);
    one.receive(receivingLater);
    const auto sending = transferOf(1, sent, 1), sendingLater = transferOf(1, sentLater, 2);
    zero.send(sending);
    zero.send(sendingLater);
    EXPECT_TRUE(fails(receiving) && endsWell(sending));
    EXPECT_TRUE(endsWell(sendingLater) && endsWell(receivingLater));
    EXPECT_EQ(later[0], 43);
  }
}

TEST(Messages, CloseEndsWhatWaits) {
  Channels channels;
  MessageBoard board(0, 2, channels.openOf(0));
  Communicator sender = channels.take(1, 0, 0);
  std::vector<int> data(1);
  const auto fromOther = transferOf(1, data), fromSelf = transferOf(0, data);
  board.receive(fromOther);
  board.receive(fromSelf);
  board.close(Clock::now());
  EXPECT_TRUE(fails(fromOther) && fails(fromSelf));
  const auto late = transferOf(1, data);
  board.receive(late);
  EXPECT_TRUE(fails(late));
}

}  // namespace
}  // namespace tutti_torch
