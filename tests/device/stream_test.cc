// Streams and events without communicators: what synchronize() waits for and throws, what an event
// marks, and who may release what from where.

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <tutti/device.h>
#include <tutti/error.h>
#include <tutti/log.h>

#include "src/device/host_stream.h"

namespace tutti::tests {
namespace {

using device::HostStream;
using device::Work;
using namespace std::chrono_literals;

/// Waits that only a broken program lets run out.
constexpr auto kPatience = 20s;

/// Idle until it is opened, as a collective that waits for its peers.
class Gate {
 public:
  void open() { *open_ = true; }
  void enqueueOn(const std::shared_ptr<HostStream>& stream) const {
    stream->enqueue(std::make_unique<Waiting>(open_));
  }

 private:
  struct Waiting final : Work {
    explicit Waiting(std::shared_ptr<std::atomic<bool>> gate) : open(std::move(gate)) {}
    Status poll() override { return *open ? Status::Done : Status::Idle; }
    std::shared_ptr<std::atomic<bool>> open;
  };
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

struct Call final : Work {
  explicit Call(std::function<void()> f) : function(std::move(f)) {}
  Status poll() override {
    function();
    return Status::Done;
  }
  std::function<void()> function;
};
void call(const std::shared_ptr<HostStream>& stream, std::function<void()> function) {
  stream->enqueue(std::make_unique<Call>(std::move(function)));
}

std::string thrownBy(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(Copy, IsInTheStreamsOrder) {
  Stream stream;
  int from = 1, to = 0, seen = 0;
  stream.enqueue([&] { from = 2; });
  copy({&to, &from, sizeof from}, stream);
  stream.enqueue([&] { seen = std::exchange(to, 3); });
  stream.synchronize();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(to, 3);
}

TEST(Copy, WithoutAStreamIsDoneWhenItReturns) {
  const int from = 1;
  int to = 0;
  copy({&to, &from, sizeof from});
  EXPECT_EQ(to, 1);
  copy({});
  EXPECT_NE(thrownBy([&] {
              copy({&to, nullptr, 1});
            }).find("copy: from is null"),
            std::string::npos);
}

TEST(Stream, SynchronizeDoesNotWaitForWhatIsEnqueuedLater) {
  const auto stream = HostStream::create();
  Gate first, later;
  first.enqueueOn(stream);
  auto waiter = std::async(std::launch::async, [&] { stream->synchronize(); });
  std::this_thread::sleep_for(20ms);  // most likely it waits now; if not, this tests less
  later.enqueueOn(stream);
  first.open();
  const bool returned = waiter.wait_for(kPatience) == std::future_status::ready;
  later.open();
  EXPECT_TRUE(returned) << "it waits for an empty queue";
  stream->synchronize();
}

TEST(Stream, SynchronizeThrowsOnlyWhatFailedBeforeIt) {
  const auto stream = HostStream::create();
  Gate gate;
  call(stream, [] {});
  gate.enqueueOn(stream);
  auto waiter =
      std::async(std::launch::async, [&] { return thrownBy([&] { stream->synchronize(); }); });
  std::this_thread::sleep_for(20ms);
  std::atomic<bool> failed = false;
  call(stream, [&] {
    failed = true;
    throw Error(ErrorCode::Internal, "later");
  });
  gate.open();
  ASSERT_EQ(waiter.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(waiter.get(), "nothing");
  ASSERT_TRUE(eventually([&] { return failed.load(); }));
  EXPECT_EQ(thrownBy([&] { stream->synchronize(); }), "later");
  EXPECT_EQ(thrownBy([&] { stream->synchronize(); }), "nothing");
}

TEST(Stream, OneFailureIsThrownForABatchAndEachBatchHasItsOwn) {
  const auto stream = HostStream::create();
  for (const char* batch : {"first", "second"}) {
    for (int i = 0; i < 3000; ++i)  // more than are kept apart
      call(stream, [=] { throw Error(ErrorCode::Internal, batch + std::to_string(i)); });
    EXPECT_EQ(thrownBy([&] { stream->synchronize(); }), batch + std::string("0"));
    EXPECT_EQ(thrownBy([&] { stream->synchronize(); }), "nothing");
    EXPECT_TRUE(stream->query());
  }
}

TEST(Stream, WorkIsDestroyedBeforeSynchronizeReturns) {
  struct SlowEnd {
    explicit SlowEnd(std::atomic<int>& n) : ended(n) {}
    ~SlowEnd() {
      std::this_thread::sleep_for(5ms);
      ++ended;
    }
    std::atomic<int>& ended;
  };
  std::atomic<int> ended = 0;
  Stream stream;
  for (int i = 1; i <= 10; ++i) {
    stream.enqueue([held = std::make_shared<SlowEnd>(ended)] {});
    stream.synchronize();
    ASSERT_EQ(ended, i);
  }
}

TEST(Stream, TheEngineLeavesSignalsToTheProgram) {
  Stream stream;
  sigset_t blocked;
  sigemptyset(&blocked);
  stream.enqueue([&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); });
  stream.synchronize();
  for (const int number : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM})
    EXPECT_EQ(sigismember(&blocked, number), 1) << number;
}

TEST(Stream, WorkThatWaitsForAStreamIsRefused) {
  Stream stream, other;
  std::string refusal;
  stream.enqueue([&] {
    other.enqueue([] {});
    refusal = thrownBy([&] { other.synchronize(); });
  });
  stream.synchronize();
  EXPECT_NE(refusal.find("waits for a stream"), std::string::npos) << refusal;
  other.synchronize();
}

TEST(Stream, ReleasedByItsOwnWorkStillRunsWhatWasEnqueued) {
  std::atomic<int> ran = 0;
  for (int i = 0; i < 50; ++i) {
    auto owner = std::make_shared<Stream>();
    Stream& stream = *owner;
    std::promise<void> enqueued;
    stream.enqueue([owner = std::move(owner), ready = enqueued.get_future().share()] {
      ready.wait_for(kPatience);  // so that the others are behind it when it ends
    });
    for (int k = 0; k < 3; ++k) stream.enqueue([&] { ++ran; });
    enqueued.set_value();
  }
  EXPECT_TRUE(eventually([&] { return ran == 150; })) << ran;
}

TEST(Stream, AFailureNobodySawIsLoggedByItsEnd) {
  std::string logged;
  setLogSink([&](LogLevel, std::string_view line) { logged += std::string(line) + "\n"; });
  {
    Stream stream;
    stream.enqueue([] { throw Error(ErrorCode::Internal, "on purpose"); });
  }
  setLogSink(nullptr);
  EXPECT_EQ(logged, "a stream was destroyed with a failure nobody saw: on purpose\n");
}

TEST(Event, RecordedAgainDoesNotReleaseEarlierWaiters) {
  const auto slow = HostStream::create(), idle = HostStream::create(), third = HostStream::create();
  const auto ref = [](const std::shared_ptr<HostStream>& s) { return StreamRef(s.get()); };
  Gate gate;
  std::atomic<bool> opened = false, early = false;
  Event event;
  gate.enqueueOn(slow);
  event.record(ref(slow));
  event.wait(ref(third));
  call(third, [&] { early = !opened; });
  auto waiter = std::async(std::launch::async, [&] {
    event.synchronize();
    return opened.load();
  });
  std::this_thread::sleep_for(20ms);  // most likely it waits for the first record now
  event.record(ref(idle));
  idle->synchronize();
  EXPECT_TRUE(event.query()) << "the newest record is reached";
  std::this_thread::sleep_for(20ms);
  opened = true;
  gate.open();
  third->synchronize();
  EXPECT_FALSE(early) << "the waiter for the first record ran before it was reached";
  waiter.wait();
  slow->synchronize();
}

TEST(Event, OfAnIdleStreamIsReachedAtOnce) {
  const auto stream = HostStream::create();
  Event event;
  event.record(StreamRef(stream.get()));
  EXPECT_TRUE(event.query());
  Gate gate;
  gate.enqueueOn(stream);
  event.record(StreamRef(stream.get()));
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(Event, NeverRecordedOrRecordedOnNoStreamIsReached) {
  Event event;
  EXPECT_TRUE(event.query());
  event.record({});
  EXPECT_TRUE(event.query());
  event.synchronize();
}

// In every build: without CUDA, and with NVIDIA's runtime where there is no GPU.
TEST(Devices, ThatAreNotThereAreRefusedWithTheReason) {
  EXPECT_EQ(deviceCount(DeviceKind::Host), 1);
  EXPECT_EQ(whyNoDevice(DeviceKind::Host), "");
  const auto refusal = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::Unsupported) return e.what();
    }
    return "nothing was refused";
  };
  EXPECT_THROW(Stream(Device{DeviceKind::Host, 1}), Error);
  if (deviceCount(DeviceKind::Cuda) > 0) GTEST_SKIP() << "there is a GPU";
  const std::string why = whyNoDevice(DeviceKind::Cuda);
  EXPECT_TRUE(
      why.starts_with("this build of Tutti has no CUDA: configure it with -D TUTTI_CUDA=ON") ||
      why.starts_with("CUDA finds no GPU"))
      << why;
  const Device gpu{DeviceKind::Cuda, 0};
  EXPECT_EQ(refusal([&] { Stream stream(gpu); }), "there is no device cuda:0: " + why);
  EXPECT_EQ(refusal([&] { Event event(gpu); }), "there is no device cuda:0: " + why);
  EXPECT_EQ(refusal([&] { allocateOn(gpu, 8); }), "there is no device cuda:0: " + why);
  EXPECT_EQ(refusal([&] { allocatePinned(8); }), why);
  EXPECT_EQ(refusal([&] { StreamRef::cuda(nullptr); }), why);
}

}  // namespace
}  // namespace tutti::tests
