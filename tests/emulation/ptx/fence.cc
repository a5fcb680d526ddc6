// Fences; see include/tutti/cuda/ptx/fence.cuh. What was read relaxed before a fence is acquired by
// it, relaxed writes after it release. The latter release what the thread knows when it writes,
// which may be more than it knew at the fence.

#include <chrono>

#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

void fence() {
  Thread& thread = thisThread("a fence");
  Ignored ignored;
  for (const void* address : thread.relaxedLoads) acquire(address);
  thread.relaxedLoads.clear();
  thread.fenced = true;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/// Generic writes that this thread knows of become known to the proxy that reads shared memory.
void fenceProxy() {
  thisThread("fence.proxy.async");
  release(&thisBlock().proxyTag);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::emulated {

using namespace emulation;

void threadFence() { fence(); }

[[noreturn]] void trap(Site site) { failAt(site, "__trap()"); }

uint64_t clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

}  // namespace tutti::cuda::emulated

namespace tutti::cuda::ptx {

using namespace emulation;

void fenceAcqRelGpu(Site) { fence(); }
void fenceAcqRelSys(Site) { fence(); }
void fenceProxyAsyncShared(Site) { fenceProxy(); }
void fenceProxyAsync(Site) { fenceProxy(); }
void fenceMbarrierInit(Site) { thisThread("fence.mbarrier_init"); }
void gridDependencyWait(Site) { thisThread("griddepcontrol.wait"); }
void gridLaunchDependents(Site) { thisThread("griddepcontrol.launch_dependents"); }

uint64_t globalTimer(Site site) {
  thisWorker().maybePreempt(site);
  return emulated::clock();
}

}  // namespace tutti::cuda::ptx
