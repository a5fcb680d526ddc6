#include "tests/emulation/worker.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "tests/emulation/report.h"

thread_local constinit uint3 threadIdx{}, blockIdx{};
thread_local constinit dim3 blockDim{}, gridDim{};

namespace tutti::emulation {

thread_local constinit Thread* currentThread = nullptr;

namespace {

constexpr unsigned kPreemptOneIn = 16;
constexpr unsigned kLandBetweenOneIn = 8;
constexpr unsigned kNapOneIn = 32;  // preemptions: the other workers run on meanwhile

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// All workers of the process, which never end: a launch may wait for another one's progress.
struct AllWorkers {
  std::mutex mutex;
  std::vector<Worker*> workers;
  std::vector<const std::atomic<uint64_t>*> progress;
};
AllWorkers& allWorkers() {
  static auto* const all = new AllWorkers;
  return *all;
}

uint64_t progressOfAll() {
  AllWorkers& all = allWorkers();
  std::lock_guard lock(all.mutex);
  uint64_t sum = 0;
  for (const auto* progress : all.progress) sum += progress->load(std::memory_order_relaxed);
  return sum;
}

}  // namespace

Worker::Worker() : ready_(4096) {
  AllWorkers& all = allWorkers();
  std::lock_guard lock(all.mutex);
  all.workers.push_back(this);
  all.progress.push_back(&progress_);
}

Worker& Worker::ofThisThread() {
  static thread_local Worker* worker = nullptr;
  if (worker == nullptr) worker = new Worker;
  return *worker;
}

uint64_t Worker::random() {
  randomState_ ^= randomState_ << 13;
  randomState_ ^= randomState_ >> 7;
  randomState_ ^= randomState_ << 17;
  return randomState_;
}

void Worker::begin(LaunchState& launch) {
  launch_ = &launch;
  blockDim = launch.launch->block;
  gridDim = launch.launch->grid;
  seed_ = launch.launch->seed;
  randomState_ = (seed_ + 1) * 0x9e3779b97f4a7c15ull + reinterpret_cast<uintptr_t>(this) % 4099;
  main_.worker = this;
  adoptThread(main_.fiber);
  currentThread = &main_;
  idlePolls_ = 0;
  release(&tag_);  // this OS thread's thread_local variables, which its fibers use
}

void Worker::run(LaunchState& launch) {
  Ignored ignored;
  begin(launch);
  while (step()) {
  }
  currentThread = nullptr;
  giveIdleThreads();
}

/// Does the next thing; false when the launch has nothing left for this worker.
bool Worker::step() {
  if (seeded() && random() % 2 == 0 && landOne(true)) return true;
  if (readyCount_ > 0) {
    switchTo(popReady());
    return true;
  }
  if (landOne(false)) return true;
  if (!polling_.empty()) return repoll();
  if (liveThreads_ > 0) report("deadlock: no thread can go on");
  if (admit()) return true;
  if (launch_->nextCluster.load() >= launch_->clusterCount) return false;
  usleep(20);  // other workers have as many blocks as may live
  return true;
}

/// All threads wait or poll: another block may be what they wait for, else they look again.
bool Worker::repoll() {
  const uint64_t now = progress_.load(std::memory_order_relaxed);
  const bool moved = now != progressAtPoll_;
  progressAtPoll_ = now;
  if (!moved && admit()) return true;
  if (moved) {
    idlePolls_ = 0;
  } else if (++idlePolls_ > 4) {
    if (idlePolls_ > 256)
      usleep(50);
    else
      sched_yield();
    if (const uint64_t all = progressOfAll(); idlePolls_ == 5 || all != progressOfAll_) {
      progressOfAll_ = all;
      idleSince_ = seconds();
    } else if (seconds() - idleSince_ > environment().timeoutSeconds) {
      report("no progress: all threads poll for what does not come");
    }
  }
  for (Thread* thread : polling_) makeReady(*thread);
  polling_.clear();
  return true;
}

bool Worker::landOne(bool onlyEager) {
  if (operations_.empty()) return false;
  const size_t from = seeded() ? random() % operations_.size() : 0;
  for (size_t i = 0; i < operations_.size(); ++i) {
    const size_t at = (from + i) % operations_.size();
    if (onlyEager && !operations_[at].eager) continue;
    Operation operation = std::move(operations_[at]);
    operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(at));
    main_.block = operation.block;  // for reports
    operation.land();
    main_.block = nullptr;
    if (operation.block != nullptr) --operation.block->asyncPending;
    progress();
    return true;
  }
  return false;
}

void Worker::defer(Block* block, std::function<void()> land) {
  Ignored ignored;
  if (block != nullptr) ++block->asyncPending;
  operations_.push_back({block, std::move(land), seeded() && random() % 2 == 0});
}

namespace {

/// Of the OS thread that a fiber goes on on, which is not always that on which it was left.
__attribute__((noinline)) Thread& threadHere() {
  asm volatile("");  // it has no result that is known from before
  return *currentThread;
}

}  // namespace

/// Where a fiber begins, once for each CUDA thread that runs on it.
void Worker::enter() {
  beginFiber();
  while (true) {
    Thread& thread = threadHere();
    LaunchState& launch = launchOf(*thread.block);
    acquire(&thread.worker->tag_);
    acquire(&launch.beginTag);
    launch.launch->body();
    thread.worker->run(thread);
  }
}

/// After the kernel's function returned on `thread`: ends it, and comes back for the next, which
/// another worker may have.
void Worker::run(Thread& thread) {
  {
    Ignored ignored;
    checkNothingIsUnderWay(thread);
    release(&launch_->endTag);
    endThread(thread);
    thread.state = Thread::State::Done;
    thread.waitsIn = "";
    --liveThreads_;
    progress();
    Block& block = *thread.block;
    if (--block.liveThreads == 0 && --block.cluster->liveBlocks == 0) endCluster(*block.cluster);
    thread.block = nullptr;
    idle_.push_back(&thread);
  }
  leave();
}

void Worker::makeReady(Thread& thread) {
  thread.state = Thread::State::Ready;
  if (readyCount_ == ready_.size()) {
    std::rotate(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(readyHead_),
                ready_.end());
    readyHead_ = 0;
    ready_.resize(2 * ready_.size());
  }
  ready_[(readyHead_ + readyCount_++) & (ready_.size() - 1)] = &thread;
}

Thread& Worker::popReady() {
  const size_t mask = ready_.size() - 1;
  if (seeded()) std::swap(ready_[readyHead_], ready_[(readyHead_ + random() % readyCount_) & mask]);
  Thread* const thread = ready_[readyHead_];
  readyHead_ = (readyHead_ + 1) & mask;
  --readyCount_;
  return *thread;
}

void Worker::wake(Thread*& list) {
  for (Thread* thread = list; thread != nullptr;) {
    Thread* const next = thread->next;
    makeReady(*thread);
    thread = next;
  }
  list = nullptr;
  progress();
}

void Worker::switchTo(Thread& thread) {
  Thread& from = *currentThread;
  if (&from == &thread) return;
  currentThread = &thread;
  if (thread.block != nullptr) {
    threadIdx = thread.index;
    blockIdx = thread.block->index;
  }
  switchFiber(from.fiber, thread.fiber);
}

/// Leaves the current thread for another one that is ready, or for the worker.
void Worker::leave() {
  const bool land = seeded() && !operations_.empty() && random() % kLandBetweenOneIn == 0;
  Thread& next = readyCount_ > 0 && !land ? popReady() : main_;
  if (readyCount_ > 0) __builtin_prefetch(ready_[readyHead_]->fiber.stackPointer);
  switchTo(next);
}

void Worker::wait(const char* what, Site site) {
  Thread& thread = *currentThread;
  thread.state = Thread::State::Waiting;
  thread.waitsIn = what;
  thread.site = site;
  leave();
}

void Worker::poll(const char* what, Site site) {
  Ignored ignored;
  Thread& thread = *currentThread;
  thread.looksWithoutPause = 0;
  thread.state = Thread::State::Polling;
  thread.waitsIn = what;
  thread.site = site;
  polling_.push_back(&thread);
  leave();
}

void Worker::yield(Site site) {
  currentThread->site = site;
  makeReady(*currentThread);
  leave();
}

void Worker::maybePreempt(Site site) {
  if (!seeded() || random() % kPreemptOneIn != 0) return;
  Ignored ignored;
  // Where workers share a core, what one does between two naps looks like one step to the others.
  if (random() % kNapOneIn == 0) usleep(20);
  yield(site);
}

void Worker::report(const char* why) {
  std::vector<const Thread*> threads;
  for (const auto& cluster : clusters_)
    for (const auto& block : cluster->blocks)
      for (const Thread* thread : block->threads)
        if (thread->block == block.get() && thread->state != Thread::State::Done)
          threads.push_back(thread);
  reportWaiting(*launch_->launch, why, threads);
}

}  // namespace tutti::emulation
