#include "tests/emulation/report.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace tutti::emulation {
namespace {

constexpr size_t kShownThreads = 16;

std::string place(Site site) { return std::string(site.file) + ":" + std::to_string(site.line); }

std::string position(const Thread& thread) {
  const uint3 b = thread.block->index;
  return "block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " + std::to_string(b.z) +
         ") thread " + std::to_string(thread.linear);
}

/// Only the first OS thread that has something to report gets through.
[[noreturn]] void endWith(const std::string& text) {
  static auto* const mutex = new std::mutex;
  mutex->lock();
  fprintf(stderr, "emulation: %s\n", text.c_str());
  fflush(stdout);
  // No end of sanitizers, which would change the status.
  syscall(SYS_exit_group, kErrorStatus);
  std::abort();
}

}  // namespace

void fail(const std::string& text) {
  std::string all = text;
  if (currentThread != nullptr && currentThread->block != nullptr) {
    const Launch& launch = *launchOf(*currentThread->block).launch;
    all += "\n  in kernel " + launch.kernel + " on device " + std::to_string(launch.device) + ", " +
           position(*currentThread);
  }
  endWith(all);
}

void failAt(Site site, const std::string& text) { fail(place(site) + ": " + text); }

void failOutside(const char* what) { fail(std::string(what) + " outside a kernel"); }

void reportWaiting(const Launch& launch, const char* why, std::span<const Thread* const> threads) {
  std::string text = std::string(why) + ", in kernel " + launch.kernel + " on device " +
                     std::to_string(launch.device);
  for (size_t i = 0; i < threads.size() && i < kShownThreads; ++i)
    text += "\n  " + position(*threads[i]) + " waits in " + threads[i]->waitsIn + " at " +
            place(threads[i]->site);
  if (threads.size() > kShownThreads)
    text += "\n  and " + std::to_string(threads.size() - kShownThreads) + " more";
  endWith(text);
}

void checkNothingIsUnderWay(const Thread& thread) {
  if (!thread.copies.empty() || !thread.copyGroups.empty())
    fail("a thread exits with cp.async copies that it never waited for");
  bool storesWaitedFor = thread.bulkGroup == nullptr;
  for (const auto& group : thread.bulkGroups) storesWaitedFor &= group->waitedFor || !group->used;
  if (!storesWaitedFor) fail("a thread exits with bulk stores that it never waited for");
  const Warpgroup& group = thread.block->warpgroups[thread.linear / kWarpgroup];
  const unsigned self = thread.linear % kWarpgroup;
  if (group.waited[self] != group.committed[self] ||
      group.issuedAtCommit[self] != group.issued[self])
    fail("a thread exits with wgmmas that it never waited for");
  if (group.changed[self] != group.registerChanges.size())
    fail("a thread exits without a setmaxnreg that others of its warpgroup executed");
}

}  // namespace tutti::emulation
