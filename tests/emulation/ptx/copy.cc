// cp.async; see include/tutti/cuda/ptx/copy.cuh. A copy lands when its group is waited for or, with
// a seed, half of the time at once, so that both a missing wait and a buffer still in use show.

#include <cstring>

#include "tests/emulation/ptx/global.h"
#include "tests/emulation/shared_memory.h"

namespace tutti::emulation {
namespace {

void land(AsyncCopy& copy) {
  if (copy.landed) return;
  copy.landed = true;
  std::memcpy(copy.to, copy.from, copy.sourceBytes);
  std::memset(copy.to + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

void cpAsyncBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t sourceBytes, Site site) {
  Thread& thread = thisThread("cp.async");
  if (sourceBytes > bytes) failAt(site, "cp.async of more source bytes than it copies");
  char* const target = sharedBytes(to, bytes, bytes, *thread.block, site);
  touchWrite(target, bytes, "cp.async");
  if (sourceBytes > 0) {
    requireAligned(from, bytes, "cp.async", site);
    touchRead(from, sourceBytes, "cp.async");
  }
  Ignored ignored;
  thread.copies.push_back(
      {target, static_cast<const char*>(from), bytes, sourceBytes, false, site});
  if (thread.worker->seeded() && thread.worker->random() % 2 == 0) land(thread.copies.back());
  thread.worker->maybePreempt(site);
}

void cpAsyncCommit(Site) {
  Ignored ignored;
  Thread& thread = thisThread("cp.async.commit_group");
  thread.copyGroups.push_back(std::move(thread.copies));
  thread.copies.clear();
}

void cpAsyncWaitAllBut(int groups, Site) {
  Thread& thread = thisThread("cp.async.wait_group");
  while (thread.copyGroups.size() > static_cast<size_t>(groups)) {
    for (AsyncCopy& copy : thread.copyGroups.front()) {
      touchWrite(copy.to, copy.bytes, "cp.async");
      Ignored ignored;
      land(copy);
    }
    Ignored ignored;
    thread.copyGroups.pop_front();
  }
}

}  // namespace tutti::cuda::ptx
