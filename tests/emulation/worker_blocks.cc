// The worker's blocks: how one is admitted with its threads, and what is left of it.

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "tests/emulation/quiet.h"
#include "tests/emulation/shared_memory.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

/// Whether the launch's device has room for so many blocks more; takes it.
bool takeRoom(const Launch& launch, unsigned blocks) {
  if (launch.room == nullptr) return true;
  const uint64_t wanted = launch.roomPerBlock * blocks;
  uint64_t free = launch.room->free.load();
  while (free >= wanted)
    if (launch.room->free.compare_exchange_weak(free, free - wanted)) return true;
  return false;
}

void leaveRoom(const Launch& launch, unsigned blocks) {
  if (launch.room != nullptr) launch.room->free.fetch_add(launch.roomPerBlock * blocks);
}

/// With ThreadSanitizer, which knows 8128 threads at a time: fibers that no worker has. If each
/// kept as many as it ever needed at once, these could be more.
struct ForeignThreads {
  QuietMutex mutex;
  std::deque<Thread*> all;  // those that have been here longest first
};
ForeignThreads& foreignThreads() {
  static auto* const threads = new ForeignThreads;
  return *threads;
}

}  // namespace

bool Worker::admit() {
  const Launch& launch = *launch_->launch;
  const unsigned blocks = launch_->blocksPerCluster;
  if (launch.residentBlocks > 0 &&
      launch_->residentBlocks.fetch_add(blocks) + blocks > launch.residentBlocks) {
    launch_->residentBlocks.fetch_sub(blocks);
    return false;
  }
  if (!takeRoom(launch, blocks)) {
    if (launch.residentBlocks > 0) launch_->residentBlocks.fetch_sub(blocks);
    return false;
  }
  const uint64_t number = launch_->nextCluster.fetch_add(1);
  if (number >= launch_->clusterCount) {
    launch_->nextCluster.store(launch_->clusterCount);
    if (launch.residentBlocks > 0) launch_->residentBlocks.fetch_sub(blocks);
    leaveRoom(launch, blocks);
    return false;
  }
  clusters_.push_back(std::make_unique<Cluster>());
  Cluster& cluster = *clusters_.back();
  cluster.launch = launch_;
  cluster.liveBlocks = blocks;
  for (unsigned rank = 0; rank < blocks; ++rank)
    cluster.blocks.push_back(makeBlock(cluster, number, rank));
  for (auto& block : cluster.blocks) startThreads(*block);
  return true;
}

std::unique_ptr<Block> Worker::makeBlock(Cluster& cluster, uint64_t number, unsigned rank) {
  const Launch& launch = *launch_->launch;
  const dim3 c = launch.cluster;
  const uint64_t columns = launch.grid.x / c.x, rows = launch.grid.y / c.y;
  auto block = std::make_unique<Block>();
  block->cluster = &cluster;
  block->rankInCluster = rank;
  block->index = {unsigned(number % columns) * c.x + rank % c.x,
                  unsigned(number / columns % rows) * c.y + rank / c.x % c.y,
                  unsigned(number / columns / rows) * c.z + rank / (c.x * c.y)};
  block->threadCount = block->liveThreads = launch_->threadsPerBlock;
  block->warps.resize((block->threadCount + 31) / 32);
  if (block->threadCount % 32 != 0) block->warps.back().exited = ~0u << block->threadCount % 32;
  block->warpgroups = std::vector<Warpgroup>((block->threadCount + kWarpgroup - 1) / kWarpgroup);
  makeSharedMemory(*block, launch.dynamicSharedBytes, arenas_);
  block->loader = newProxy(loaders_, "asynchronous copies");
  block->reader = newProxy(readers_, "asynchronous reads of shared memory");
  return block;
}

ThreadContext Worker::newProxy(std::vector<ThreadContext>& pool, const char* name) {
  if (!kThreadSanitizer) return nullptr;
  if (pool.empty()) pool.push_back(newThreadContext(name));
  const ThreadContext proxy = pool.back();
  pool.pop_back();
  ActingAs actingAs(proxy);
  acquire(&launch_->beginTag);
  return proxy;
}

void Worker::startThreads(Block& block) {
  const dim3 shape = launch_->launch->block;
  const int registers = registersAtFirst(block.threadCount);
  block.threads.reserve(block.threadCount);
  for (unsigned i = 0; i < block.threadCount; ++i) {
    Thread& thread = idleThread();
    thread.block = &block;
    thread.linear = i;
    thread.index = {i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
    thread.arrivedAtCluster = thread.fenced = false;
    thread.relaxedLoads.clear();
    thread.bulkGroups.clear();
    thread.looksWithoutPause = 0;
    thread.registers = registers;
    block.threads.push_back(&thread);
    makeReady(thread);
  }
  liveThreads_ += block.threadCount;
}

Thread& Worker::idleThread() {
  if (idle_.empty()) {
    if (Thread* const thread = foreignThread()) return *thread;
    auto* const thread = new Thread;  // kept for the next block
    thread->worker = this;
    makeFiber(thread->fiber, environment().stackBytes, &Worker::enter);
    return *thread;
  }
  // Any of them: ThreadSanitizer takes it for one thread with who ran on it before.
  if (seeded()) std::swap(idle_[random() % idle_.size()], idle_.back());
  Thread& thread = *idle_.back();
  idle_.pop_back();
  return thread;
}

// None that has run in this launch: it would be one thread with who ran on it there.
Thread* Worker::foreignThread() {
  if (!kThreadSanitizer) return nullptr;
  ForeignThreads& foreign = foreignThreads();
  const std::lock_guard lock(foreign.mutex);
  if (foreign.all.empty()) return nullptr;
  if (seeded()) std::swap(foreign.all[random() % foreign.all.size()], foreign.all.front());
  const auto found = std::ranges::find_if(
      foreign.all, [&](Thread* thread) { return thread->lastLaunch != launch_->number; });
  if (found == foreign.all.end()) return nullptr;
  Thread* const thread = *found;
  foreign.all.erase(found);
  thread->worker = this;
  return thread;
}

/// When there is nothing left for this worker in a launch.
void Worker::giveIdleThreads() {
  if (!kThreadSanitizer) return;
  ForeignThreads& foreign = foreignThreads();
  const std::lock_guard lock(foreign.mutex);
  for (Thread* thread : idle_) {
    thread->lastLaunch = launch_->number;
    foreign.all.push_back(thread);
  }
  idle_.clear();
}

void Worker::endCluster(Cluster& cluster) {
  for (auto& block : cluster.blocks) {
    if (block->asyncPending > 0)
      fail("a block has exited with " + std::to_string(block->asyncPending) +
           " asynchronous copies of its shared memory under way");
    endSharedMemory(*block, arenas_);
    loaders_.push_back(block->loader);
    readers_.push_back(block->reader);
  }
  if (launch_->launch->residentBlocks > 0)
    launch_->residentBlocks.fetch_sub(launch_->blocksPerCluster);
  leaveRoom(*launch_->launch, launch_->blocksPerCluster);
  std::erase_if(clusters_, [&](const auto& each) { return each.get() == &cluster; });
}

}  // namespace tutti::emulation
