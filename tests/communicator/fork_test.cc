// A forked child has copies of all that its parent made with Tutti, and none of the threads: calls
// on them are refused, and their end, the process's exit included, neither hangs nor harms anybody.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <tutti/tutti.h>

#include "src/base/log.h"
#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

/// Runs `body` in a forked child that then exits as programs do. How it ended: exit code, or 128 +
/// signal; a child that hangs is killed by SIGALRM.
int inChild(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code() == ErrorCode::InvalidUsage;
  }
  return false;
}

/// One of everything, with work under way.
struct Things {
  std::optional<Communicator> communicator;
  std::optional<Communicator> part;
  Memory memory;
  Stream stream;
  Event event;
};

void use(Things& things) {
  things.memory = things.communicator->allocate(1 << 16);
  things.part = things.communicator->split(0, things.communicator->rank());
  things.part->barrier(things.stream);
  things.event.record(things.stream);
}

/// 0, or the number of the call that was not refused.
int callEverything(Things& things) {
  Communicator& c = *things.communicator;
  const int self = 0;
  int number = 0;
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { c.barrier(); }, [&] { c.barrier(things.stream); }, [&] { c.allocate(10); },
           [&] { c.split(0, 0); }, [&] { c.shrink(); }, [&] { c.growId(); },
           [&] { c.grow({.size = 9}); },
           [&] {
             c.subset({&self, 1});
           },
           [&] { c.describe(); }, [&] { things.stream.synchronize(); },
           [&] { things.stream.query(); }, [&] { things.stream.enqueue([] {}); },
           [&] { things.event.synchronize(); }, [&] { things.event.query(); },
           [&] { things.event.record(things.stream); }}) {
    ++number;
    if (!refused(call)) return number;
  }
  c.abort();
  const auto error = c.asyncError();
  return error && error->code() == ErrorCode::InvalidUsage ? 0 : 100;
}

TEST(Fork, AChildMayDestroyAndExitWithRanksOfItsProcess) {
  auto ranks = Communicator::createLocal(3);
  std::vector<Things> all(3);
  for (int r = 0; r < 3; ++r) all[r].communicator = std::move(ranks[r]);
  std::vector<std::thread> threads;
  for (Things& things : all) threads.emplace_back([&] { use(things); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(inChild([&] { return callEverything(all[1]); }), 0);
  EXPECT_EQ(inChild([&] {
              all.clear();
              return 0;
            }),
            0);
  for (Things& things : all) things.stream.synchronize();
}

#if defined(__SANITIZE_THREAD__)
constexpr bool kMayStartThreads = false;  // ThreadSanitizer ends a forked child that does
#else
constexpr bool kMayStartThreads = true;
#endif

/// In a forked child.
int useOwnStream(Things& things) {
  const Stream parents = std::move(things.stream);
  things.stream = Stream();
  things.stream.enqueue([] {});
  things.stream.synchronize();
  Event event;
  if (!refused([&] { event.record(parents); })) return 1;
  event.synchronize();  // as if never recorded
  return 0;
}

TEST(Fork, AChildMayDestroyAndExitWithRanksThatAreProcesses) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    auto things = std::make_unique<Things>();
    things->communicator = context.join();
    use(*things);
    if (const int code = inChild([&] { return callEverything(*things); })) return code;
    const int destroyed = inChild([&] {
      things.reset();
      return 0;
    });
    if (destroyed) return destroyed;
    const int replaced = inChild([&] {
      things->communicator = Communicator(std::move(*things->part));
      things->memory = Memory();
      return kMayStartThreads ? useOwnStream(*things) : 0;
    });
    if (replaced) return replaced;
    // The parent's are as they were, for the others too.
    float x = 1;
    things->communicator->allReduce({.send = &x, .recv = &x, .count = 1});
    things->stream.synchronize();
    return x == 3 ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

TEST(Fork, AChildDoesNotWaitForThoseWhoWaitedAtTheFork) {
  Stream busy, stream;
  Event event;
  std::atomic<bool> open = false;
  busy.enqueue([&] {
    while (!open) std::this_thread::sleep_for(1ms);
  });
  event.record(busy);
  event.wait(stream);
  auto streamWaiter = std::async(std::launch::async, [&] { stream.synchronize(); });
  auto eventWaiter = std::async(std::launch::async, [&] { event.synchronize(); });
  std::this_thread::sleep_for(50ms);  // most likely both wait now; if not, this tests less
  EXPECT_EQ(inChild([&] {
              { Stream gone = std::move(stream); }
              { Event gone = std::move(event); }
              return 0;
            }),
            0);
  open = true;
  streamWaiter.wait();
  eventWaiter.wait();
}

TEST(Fork, AChildLogsAlthoughAnotherThreadWasLogging) {
  std::promise<void> inSink, release;
  setLogSink([&, done = release.get_future().share()](LogLevel, std::string_view) {
    inSink.set_value();
    done.wait();
  });
  std::thread logger([] {
    Stream stream;
    stream.enqueue([] { throw Error(ErrorCode::Internal, "logged at the end of the stream"); });
  });
  inSink.get_future().wait();
  EXPECT_EQ(inChild([] {
              int lines = 0;
              setLogSink([&](LogLevel, std::string_view) { ++lines; });
              base::log(LogLevel::Info, "the child's own");
              setLogSink(nullptr);
              return lines == 1 ? 0 : 1;
            }),
            0);
  release.set_value();
  logger.join();
  setLogSink(nullptr);
}

// Objects in static storage end after main(), in the child as well.
std::optional<Things> inStaticStorage;

TEST(Fork, AChildMayExitWithCommunicatorsInStaticStorage) {
  RankProcesses ranks(2, [](const RankProcesses::Context& context) {
    inStaticStorage.emplace();
    inStaticStorage->communicator = context.join();
    use(*inStaticStorage);
    const int code = inChild([] { return 0; });
    inStaticStorage->communicator->barrier();
    inStaticStorage.reset();
    return code;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

}  // namespace
}  // namespace tutti::tests
