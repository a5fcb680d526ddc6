// Threads of the library: named, without signals, and waited for.

#include "src/base/service_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <future>
#include <string>

namespace tutti::base {
namespace {

TEST(ServiceThread, HasItsNameAndNoSignals) {
  sigset_t before{}, after{}, inside{};
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::array<char, 16> name{};
  ServiceThread thread;
  std::promise<void> named;  // start() names the thread when it runs
  thread.start("tutti-test", [&, begun = named.get_future().share()] {
    begun.wait();
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    ::pthread_sigmask(SIG_SETMASK, nullptr, &inside);
  });
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  named.set_value();
  thread.finish();
  EXPECT_STREQ(name.data(), "tutti-test");
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(::sigismember(&inside, signal), 1) << signal;
    EXPECT_EQ(::sigismember(&after, signal), ::sigismember(&before, signal)) << signal;
  }
}

TEST(ServiceThread, IsWaitedForAtItsEnd) {
  std::atomic<bool> done = false;
  {
    ServiceThread thread;
    thread.start("tutti-slow", [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    });
    EXPECT_FALSE(thread.runsHere());
  }
  EXPECT_TRUE(done);
  ServiceThread never;
  never.finish();
}

TEST(ServiceThread, MayBeFinishedByItsOwnBody) {
  auto* const thread = new ServiceThread;
  std::promise<void> started;
  const auto ended = std::make_shared<std::promise<bool>>();
  std::future<bool> result = ended->get_future();
  thread->start("tutti-self", [thread, ended, begun = started.get_future().share()] {
    begun.wait();
    const bool here = thread->runsHere();
    delete thread;
    ended->set_value(here);
  });
  started.set_value();
  EXPECT_TRUE(result.get());
}

TEST(ServiceThread, RunsAloneWithoutAnObject) {
  const auto ended = std::make_shared<std::promise<int>>();
  std::future<int> result = ended->get_future();
  ServiceThread::startAlone("tutti-alone", [ended] { ended->set_value(42); });
  EXPECT_EQ(result.get(), 42);
}

}  // namespace
}  // namespace tutti::base
