// Barriers of a block, a cluster and a grid.

#include <algorithm>

#include "tests/emulation/report.h"
#include "tests/emulation/warp.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

using cuda::emulated::BlockVote;

constexpr unsigned kAllThreads = 0;  // as a barrier's count

bool isComplete(const Block& block, const NamedBarrier& barrier) {
  if (barrier.arrived == 0) return false;
  return barrier.arrived >=
         (barrier.expected == kAllThreads ? block.liveThreads : barrier.expected);
}

void complete(NamedBarrier& barrier, Worker& worker) {
  barrier.lastArrived = barrier.arrived;
  barrier.lastTrue = barrier.trueVotes;
  barrier.arrived = barrier.expected = barrier.trueVotes = 0;
  worker.wake(barrier.waiting);
}

void checkArrival(NamedBarrier& barrier, unsigned id, unsigned count, Site site) {
  if (id >= 16 || count % 32 != 0 || count > 1024)
    failAt(site, "barrier " + std::to_string(id) + " of " + std::to_string(count) +
                     " threads: ids are 0 to 15, counts multiples of 32");
  const auto others = [&barrier] {
    return std::string(barrier.first.file) + ":" + std::to_string(barrier.first.line);
  };
  if (barrier.arrived == 0) {
    barrier.expected = count;
    barrier.first = site;
  } else if (barrier.expected != count) {
    failAt(site, "barrier " + std::to_string(id) + " of " + std::to_string(count) +
                     " threads, but of " + std::to_string(barrier.expected) + " at " + others());
  } else if (count == kAllThreads && barrier.first.line != site.line) {
    failAt(site,
           "divergent __syncthreads: other threads of the block are in the one at " + others());
  }
}

/// Arrives, and waits unless told not to. Returns the barrier, for its votes.
NamedBarrier& meet(unsigned id, unsigned count, bool predicate, bool waits, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("a barrier");
  Block& block = *thread.block;
  Worker& worker = *thread.worker;
  NamedBarrier& barrier = block.barriers[std::min(id, 15u)];
  checkArrival(barrier, id, count, site);
  release(&barrier.tag);
  ++barrier.arrived;
  barrier.trueVotes += predicate ? 1 : 0;
  if (isComplete(block, barrier)) {
    complete(barrier, worker);
    if (waits && worker.seeded()) worker.yield(site);
  } else if (waits) {
    thread.next = barrier.waiting;
    barrier.waiting = &thread;
    worker.wait(id == 0 ? "__syncthreads" : "bar.sync", site);
  }
  if (waits) acquire(&barrier.tag);
  return barrier;
}

}  // namespace

void endThread(Thread& thread) {
  Block& block = *thread.block;
  // Those that wait for all threads wait for one less; liveThreads still counts this one.
  NamedBarrier& all = block.barriers[0];
  if (all.arrived > 0 && all.expected == kAllThreads && all.arrived >= block.liveThreads - 1)
    complete(all, *thread.worker);
  leaveWarp(thread);
}

}  // namespace tutti::emulation

namespace tutti::cuda::emulated {

using namespace emulation;

int syncThreads(BlockVote vote, bool predicate, Site site) {
  const NamedBarrier& barrier = meet(0, kAllThreads, predicate, true, site);
  if (vote == BlockVote::And) return barrier.lastTrue == barrier.lastArrived;
  return vote == BlockVote::Or ? barrier.lastTrue > 0 : static_cast<int>(barrier.lastTrue);
}

void gridSync(Site site) {
  LaunchState& launch = launchOf(*thisThread("gridSync()").block);
  if (!launch.launch->cooperative) failAt(site, "gridSync() in a launch that is not cooperative");
  meet(0, kAllThreads, false, true, site);
  if (currentThread->linear == 0) {
    const uint64_t blocks = launch.clusterCount * launch.blocksPerCluster;
    const uint64_t generation = launch.gridGeneration.load();
    release(&launch.gridTag);
    if (launch.gridArrived.fetch_add(1) + 1 == blocks) {
      launch.gridArrived.store(0);
      launch.gridGeneration.fetch_add(1);
      thisWorker().progress();
    }
    while (launch.gridGeneration.load() == generation) thisWorker().poll("gridSync()", site);
    acquire(&launch.gridTag);
  }
  meet(0, kAllThreads, false, true, site);
}

void spinHint(Site site) {
  thisThread("spinHint()");
  thisWorker().poll("spinHint()", site);
}

}  // namespace tutti::cuda::emulated

namespace tutti::cuda::ptx {

using namespace emulation;

namespace {

void arriveAtCluster(bool releases, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("barrier.cluster.arrive");
  Cluster& cluster = *thread.block->cluster;
  if (thread.arrivedAtCluster) failAt(site, "barrier.cluster.arrive twice without a wait");
  thread.arrivedAtCluster = true;
  thread.clusterPhase = cluster.phase;
  if (releases) release(&cluster.tag);
  unsigned live = 0;
  for (const auto& block : cluster.blocks) live += block->liveThreads;
  if (++cluster.arrived < live) return;
  cluster.arrived = 0;
  ++cluster.phase;
  thread.worker->wake(cluster.waiting);
}

}  // namespace

void barSync(uint32_t id, uint32_t threads, Site site) {
  if (threads == 0) failAt(site, "bar.sync of no threads");
  meet(id, threads, false, true, site);
}
void barArrive(uint32_t id, uint32_t threads, Site site) {
  if (threads == 0) failAt(site, "bar.arrive of no threads");
  meet(id, threads, false, false, site);
}

void clusterArrive(Site site) { arriveAtCluster(true, site); }
void clusterArriveRelaxed(Site site) { arriveAtCluster(false, site); }

void clusterWait(Site site) {
  Ignored ignored;
  Thread& thread = thisThread("barrier.cluster.wait");
  Cluster& cluster = *thread.block->cluster;
  if (!thread.arrivedAtCluster) failAt(site, "barrier.cluster.wait without an arrive");
  thread.arrivedAtCluster = false;
  if (thread.clusterPhase == cluster.phase) {
    thread.next = cluster.waiting;
    cluster.waiting = &thread;
    thread.worker->wait("barrier.cluster.wait", site);
  }
  acquire(&cluster.tag);
}

}  // namespace tutti::cuda::ptx
