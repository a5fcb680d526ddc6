#pragma once

// The scheduler of one OS thread: it admits blocks of a launch, runs their threads one at a time,
// and lands asynchronous operations. Threads never leave the worker that admitted their block; the
// fibers that they ran on may, afterwards.
//
// Without a seed threads run in the order in which they became ready, and asynchronous operations
// land when nothing else can run. With one both are random: some operations land at once, some as
// late as they can.

#include <functional>
#include <vector>

#include "tests/emulation/state.h"

namespace tutti::emulation {

class Worker {
 public:
  static Worker& ofThisThread();

  /// Runs blocks of the launch until there are none left to admit and all of this worker ended.
  void run(LaunchState& launch);

  // Called by the current CUDA thread. `what` and `site` are for reports.
  void wait(const char* what, Site site);  // until somebody calls makeReady()
  void poll(const char* what, Site site);  // until others had a turn
  void yield(Site site);                   // stays ready
  void maybePreempt(Site site);            // now and then, with a seed

  void makeReady(Thread& thread);
  /// Makes all of a list ready and empties it.
  void wake(Thread*& list);
  /// Something happened that those who poll may wait for.
  void progress() {  // called by this worker's OS thread only, so that nothing is lost
    progress_.store(progress_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Calls `land` later, outside any thread. Until then `block`, if given, may not end.
  void defer(Block* block, std::function<void()> land);

  bool seeded() const { return seed_ != 0; }
  uint64_t random();

 private:
  struct Operation {
    Block* block;
    std::function<void()> land;
    bool eager;
  };

  Worker();
  void begin(LaunchState& launch);
  bool step();
  bool landOne(bool onlyEager);
  bool admit();
  std::unique_ptr<Block> makeBlock(Cluster& cluster, uint64_t number, unsigned rank);
  void startThreads(Block& block);
  ThreadContext newProxy(std::vector<ThreadContext>& pool, const char* name);
  void endCluster(Cluster& cluster);
  bool repoll();
  void switchTo(Thread& thread);
  void leave();
  Thread& idleThread();
  Thread* foreignThread();
  void giveIdleThreads();
  Thread& popReady();
  void run(Thread& thread);
  static void enter();
  [[noreturn]] void report(const char* why);

  Thread main_;  // the worker itself, between threads
  LaunchState* launch_ = nullptr;
  uint64_t seed_ = 0, randomState_ = 1;
  std::vector<Thread*> ready_;  // a ring: readyCount_ from readyHead_ on
  size_t readyHead_ = 0, readyCount_ = 0;
  std::vector<Thread*> polling_, idle_;
  std::vector<char*> arenas_;
  std::vector<Operation> operations_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  unsigned liveThreads_ = 0;
  std::atomic<uint64_t> progress_{0};
  uint64_t progressAtPoll_ = 0, progressOfAll_ = 0;
  unsigned idlePolls_ = 0;
  double idleSince_ = 0;
  std::vector<ThreadContext> loaders_, readers_;  // of blocks that have ended
  Tag tag_;
};

/// The worker of the current CUDA thread.
inline Worker& thisWorker() { return *currentThread->worker; }

}  // namespace tutti::emulation
