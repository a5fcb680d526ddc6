// mbarriers; see include/tutti/cuda/ptx/mbarrier.cuh.

#include "tests/emulation/ptx/mbarrier.h"

#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

constexpr uint32_t kMaxCount = (1 << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;

/// Fresh shared memory, all ones, is none: no count is that large.
struct Barrier {
  uint64_t phase : 1;
  uint64_t valid : 1;
  uint64_t pending : 20;
  uint64_t count : 20;
  int64_t bytes : 22;  // expected and not landed; below 0 where they landed first
};
static_assert(sizeof(Barrier) == 8);

Barrier* bytesOf(uint32_t address, Block& block, Site site) {
  return reinterpret_cast<Barrier*>(sharedBytes(address, 8, 8, block, site));
}

Barrier& barrierAt(uint32_t address, Block& block, Site site) {
  Barrier* const barrier = bytesOf(address, block, site);
  if (barrier->valid == 0 || barrier->count == kMaxCount)
    failAt(site,
           "no mbarrier was initialised at shared address " + std::to_string(offsetOf(address)));
  return *barrier;
}

/// Where ThreadSanitizer's threads meet for the phase of that parity: arrivals; and, in the bytes
/// behind, landed copies, which become known to the reading proxy where somebody has waited.
const char* arrivalTag(const Barrier& barrier, unsigned parity) {
  return reinterpret_cast<const char*>(&barrier) + 2 * parity;
}
const char* landingTag(const Barrier& barrier, unsigned parity) {
  return reinterpret_cast<const char*>(&barrier) + 4 + 2 * parity;
}

void completePhase(Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.count;
  currentThread->worker->progress();
}

void expect(Barrier& barrier, uint32_t bytes, Site site) {
  if (barrier.bytes + int64_t(bytes) > kMaxBytes)
    failAt(site, "an mbarrier expects more than 1048575 bytes in one phase");
  barrier.bytes += bytes;
}

void arrive(uint32_t address, uint32_t bytes, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("mbarrier.arrive");
  Barrier& barrier = barrierAt(address, *thread.block, site);
  if (barrier.pending == 0)
    failAt(site, "more arrivals at an mbarrier than its count of " + std::to_string(barrier.count) +
                     " in one phase");
  release(arrivalTag(barrier, barrier.phase));
  expect(barrier, bytes, site);
  barrier.pending -= 1;
  completePhase(barrier);
  thread.worker->maybePreempt(site);
}

bool hasCompleted(uint32_t address, uint32_t parity, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("mbarrier.test_wait");
  const Barrier& barrier = barrierAt(address, *thread.block, site);
  if (parity > 1) failAt(site, "a parity that is neither 0 nor 1");
  if (barrier.phase == parity) return false;
  acquire(arrivalTag(barrier, parity));
  acquire(landingTag(barrier, parity));
  if (kThreadSanitizer) {
    ActingAs reader(thread.block->reader);
    acquire(landingTag(barrier, parity));
    release(&thread.block->proxyTag);
  }
  return true;
}

}  // namespace

void completeBytes(uint32_t address, uint32_t bytes, Block& block, Site site) {
  Barrier& barrier = barrierAt(address, block, site);
  if (barrier.bytes - int64_t(bytes) < -kMaxBytes)
    failAt(site, "an mbarrier has more bytes landed than it expects");
  if (barrier.pending == 0 && barrier.bytes < int64_t(bytes))
    failAt(site, "more bytes land at an mbarrier than this phase expects");
  release(landingTag(barrier, barrier.phase));
  barrier.bytes -= bytes;
  completePhase(barrier);
}

void requireBarrier(uint32_t address, Block& block, Site site) { barrierAt(address, block, site); }

}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

void mbarrierInit(uint32_t barrier, uint32_t count, Site site) {
  Ignored ignored;
  thisThread("mbarrier.init");
  if (count == 0 || count >= kMaxCount) failAt(site, "an mbarrier of no arrivals, or of too many");
  Barrier& state = *bytesOf(barrier, thisBlock(), site);
  if (state.valid != 0 && state.count != kMaxCount && state.count != 0)
    failAt(site, "mbarrier.init where an mbarrier is in use already");
  state = {};
  state.valid = 1;
  state.pending = state.count = count;
}

void mbarrierInvalidate(uint32_t barrier, Site site) {
  Ignored ignored;
  thisThread("mbarrier.inval");
  Barrier& state = barrierAt(barrier, thisBlock(), site);
  state = {};
}

void mbarrierArrive(uint32_t barrier, Site site) { arrive(barrier, 0, site); }
void mbarrierArriveExpectTx(uint32_t barrier, uint32_t bytes, Site site) {
  arrive(barrier, bytes, site);
}
void mbarrierArriveCluster(uint32_t barrier, Site site) { arrive(barrier, 0, site); }
void mbarrierArriveClusterRelaxed(uint32_t barrier, Site site) { arrive(barrier, 0, site); }
void mbarrierArriveExpectTxCluster(uint32_t barrier, uint32_t bytes, Site site) {
  arrive(barrier, bytes, site);
}

void mbarrierExpectTx(uint32_t barrier, uint32_t bytes, Site site) {
  Ignored ignored;
  thisThread("mbarrier.expect_tx");
  expect(barrierAt(barrier, thisBlock(), site), bytes, site);
}

bool mbarrierTestWait(uint32_t barrier, uint32_t parity, Site site) {
  thisWorker().maybePreempt(site);
  const bool completed = hasCompleted(barrier, parity, site);
  if (!completed && ++currentThread->looksWithoutPause > 256)
    thisWorker().poll("mbarrier.test_wait", site);
  return completed;
}
bool mbarrierTryWait(uint32_t barrier, uint32_t parity, Site site) {
  if (hasCompleted(barrier, parity, site)) return true;
  thisWorker().poll("mbarrier.try_wait", site);
  return hasCompleted(barrier, parity, site);
}
bool mbarrierTryWaitCluster(uint32_t barrier, uint32_t parity, Site site) {
  return mbarrierTryWait(barrier, parity, site);
}
bool mbarrierTryWaitClusterRelaxed(uint32_t barrier, uint32_t parity, Site site) {
  return mbarrierTryWait(barrier, parity, site);
}

}  // namespace tutti::cuda::ptx
