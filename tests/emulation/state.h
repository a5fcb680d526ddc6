#pragma once

// The emulation's own picture of a running launch: threads, warps, blocks, clusters. All of a
// cluster is touched by one OS thread only, so nothing here needs a lock; LaunchState is shared.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <tutti/cuda/ptx.cuh>

#include "tests/emulation/emulation.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/warpgroup.h"

namespace tutti::emulation {

using cuda::Site;

struct Block;
struct Cluster;
class Worker;

/// A byte whose address stands for a place where threads meet; see release() and acquire().
struct Tag {
  char byte = 0;
};

struct AsyncCopy {  // of cp.async
  char* to;
  const char* from;
  uint32_t bytes, sourceBytes;
  bool landed;
  Site site;
};

struct BulkGroup {  // of bulk stores
  int unread = 0, unwritten = 0;
  bool used = false, waitedFor = false;  // until it had read its shared memory, at least
  Tag readTag, writtenTag;
};

/// What the proxy that reads tensor maps, and keeps what it has read, knows of one.
struct KnownTensorMap {
  const void* at;
  std::array<char, 128> bytes;
  uint64_t releases;  // fences of the process before it was read
};

struct Thread {
  enum class State : uint8_t { Done, Ready, Waiting, Polling };

  Fiber fiber;
  uint3 index{};        // threadIdx
  unsigned linear = 0;  // in the block
  Block* block = nullptr;
  Worker* worker = nullptr;
  State state = State::Done;
  const char* waitsIn = "";  // and where, for reports
  Site site;
  Thread* next = nullptr;  // of those that wait for the same
  unsigned clusterPhase = 0;
  bool arrivedAtCluster = false;
  std::deque<std::vector<AsyncCopy>> copyGroups;
  std::vector<AsyncCopy> copies;  // since the last commit
  std::deque<std::shared_ptr<BulkGroup>> bulkGroups;
  std::shared_ptr<BulkGroup> bulkGroup;   // since the last commit
  bool fenced = false;                    // relaxed stores from here on release
  std::vector<const void*> relaxedLoads;  // since the last fence, which acquires them
  int looksWithoutPause = 0;
  int registers = 0;
  uint64_t lastLaunch = 0;  // when its worker gave it away
};

struct Warp {
  /// Lanes that meet in a collective; there may be several with disjoint masks.
  struct Meeting {
    unsigned mask = 0, arrived = 0;
    void (*complete)(void** slots, unsigned lanes) = nullptr;
    Site site;
    std::array<void*, 32> slots{};
  };
  std::array<Meeting, 8> meetings;
  unsigned exited = 0;  // lanes
  Tag tag;
};

struct NamedBarrier {
  unsigned arrived = 0, expected = 0;      // expected 0: all live threads
  unsigned trueVotes = 0;                  // of __syncthreads_count() and its like
  unsigned lastArrived = 0, lastTrue = 0;  // when it last completed
  Thread* waiting = nullptr;
  Site first;
  Tag tag;
};

struct Block {
  uint3 index{};
  uint32_t rankInCluster = 0;
  Cluster* cluster = nullptr;
  unsigned threadCount = 0, liveThreads = 0;
  std::vector<Thread*> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::array<NamedBarrier, 16> barriers;

  char* shared = nullptr;  // the arena; an offset into it is a shared address
  uint32_t sharedEnd = 0;  // what is in use ends here
  struct StaticVariable {
    const void* key;
    uint32_t offset;
  };
  std::vector<StaticVariable> statics;
  int freeRegisters = 0;  // of what the block had at its beginning
  Thread* waitingForRegisters = nullptr;
  std::vector<KnownTensorMap> tensorMaps;
  int asyncPending = 0;  // asynchronous operations on this block's shared memory
  Tag proxyTag;          // fences, for the proxy that reads
  /// As whom ThreadSanitizer sees this block's asynchronous copies, and its asynchronous reads of
  /// shared memory.
  ThreadContext loader = nullptr, reader = nullptr;
};

struct LaunchState {
  const Launch* launch = nullptr;
  uint64_t number = 0;  // of the process's, from 1
  uint64_t clusterCount = 0;
  unsigned blocksPerCluster = 1, threadsPerBlock = 1;
  std::atomic<uint64_t> nextCluster{0};
  std::atomic<uint64_t> residentBlocks{0};
  std::atomic<uint64_t> gridArrived{0}, gridGeneration{0};
  std::atomic<int> helpers{0};
  Tag beginTag, endTag, gridTag;
};

struct Cluster {
  LaunchState* launch = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  unsigned liveBlocks = 0, arrived = 0, phase = 0;
  Thread* waiting = nullptr;
  Tag tag;
};

/// The CUDA thread that this OS thread runs; null outside kernels.
extern thread_local constinit Thread* currentThread;

inline LaunchState& launchOf(const Block& block) { return *block.cluster->launch; }

/// fail() with the place in the kernel's source.
[[noreturn]] void failAt(Site site, const std::string& text);
/// Nothing but a kernel may do `what`.
[[noreturn]] void failOutside(const char* what);

/// Registers of each thread of a block at its beginning: what ptxas may give to a kernel whose
/// __launch_bounds__ say that one block of `threads` threads is on a multiprocessor.
int registersAtFirst(unsigned threads);

/// The current thread of a kernel; an error names `what` where there is none.
inline Thread& thisThread(const char* what) {
  if (currentThread == nullptr || currentThread->block == nullptr) failOutside(what);
  return *currentThread;
}
inline Block& thisBlock() { return *currentThread->block; }

}  // namespace tutti::emulation
