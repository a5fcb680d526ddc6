#pragma once

// CUDA kernels executed on the CPU: the emulation's interface to whoever stands in for the CUDA
// runtime. Kernels see include/tutti/cuda instead; README.md tells how it works inside.
//
// Kernels. Launch code calls registerKernel() (include/tutti/cuda/launch.h does it) with the host
// address of a kernel and a function that copies the arguments of one launch. The runtime finds it
// again with findKernel(), binds the arguments when the launch is enqueued, and puts the result
// into a Launch, as its body.
//
// Launches. A Launch is a value: grid, block, cluster, dynamic shared memory, a body that every
// CUDA thread calls once. run() executes it in the calling OS thread and a few helpers, and returns
// when all its blocks have ended. It may be called from any number of OS threads at once: launches
// make progress side by side, also when they wait for each other's flags in memory. A stream is an
// OS thread that calls run() for one launch after the other. Whether a configuration is legal for a
// GPU is for the runtime to say before: run() asserts only what it cannot do.
//
// How many blocks of one launch live at a time is `residentBlocks`: a kernel that needs more of
// them to be there together hangs on a GPU, and here ends with an error. A block is admitted when
// those that are there have ended, or all their threads wait or poll without progress. Launches on
// one device also share a Room: a block takes its part of it while it lives.
//
// Order between OS threads. ThreadSanitizer sees no lock of the emulation, only what is told to it.
// The runtime tells it what CUDA promises: release(tag) where work is enqueued, acquire(tag) where
// it begins, and so on for events; a tag is the address of any byte that lives long enough. run()
// itself is such an edge in both directions for its caller. A runtime that is compiled with
// -fsanitize needs none of it: its locks are seen.
//
// Memory. Copies and fills of the runtime call touchRead() and touchWrite() before they touch
// device memory: AddressSanitizer then checks the range and ThreadSanitizer takes part in it.
// Nothing here allocates device memory; any address of the process is device memory. Fresh memory
// should be filled with kFreshByte: read as numbers it is NaN.
//
// Multicast. bindMulticast() says that the bytes at `address` stand for the same bytes of several
// replicas, which multimem instructions reduce over and write to.
//
// Errors. What a GPU would do wrong silently, or hang in, ends the process with kErrorStatus after
// a report on stderr with kernel, block, thread, file and line. Errors that the runtime finds are
// its own to return.

#include <vector_types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulation/environment.h"

namespace tutti::emulation {

/// How the process exits when the emulation has found an error in a kernel or how it is used.
constexpr int kErrorStatus = 86;
/// What fresh memory is filled with; four or two of them are NaN in every floating type.
constexpr int kFreshByte = 0xff;
/// Shared memory of a block, as sm_90 has it.
constexpr size_t kMaxDynamicSharedBytes = 227 << 10;

/// Room for blocks that several launches share, as those on one device do.
struct Room {
  std::atomic<uint64_t> free{0};
};

struct Launch {
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};    ///< at most 1024 threads
  dim3 cluster{1, 1, 1};  ///< divides the grid; at most 16 blocks
  size_t dynamicSharedBytes = 0;
  bool cooperative = false;  ///< gridSync() may be called; needs residentBlocks for the whole grid
  uint64_t residentBlocks = 0;  ///< so many blocks at a time; 0: no bound
  std::shared_ptr<Room> room;   ///< what blocks of other launches take up too; null: no bound
  uint64_t roomPerBlock = 0;
  int device = 0;      ///< for reports
  std::string kernel;  ///< its name, for reports
  std::function<void()> body;
  uint64_t seed = environment().seed;
};

/// Executes the launch; returns when it has ended.
void run(const Launch& launch);

/// Copies the arguments of one launch and returns its body.
using Bind = std::function<void()> (*)(const void* kernel, void** arguments);
struct Kernel {
  std::string name;  ///< demangled, or its address
  Bind bind = nullptr;
};
void registerKernel(const void* address, Bind bind);
/// Nothing where no kernel of that address was registered.
std::optional<Kernel> findKernel(const void* address);

/// ThreadSanitizer's edges: what happened before release(tag) is seen after an acquire(tag) that
/// comes later. Nothing without it.
void release(const void* tag);
void acquire(const void* tag);

/// The calling OS thread or CUDA thread is about to read or write `bytes` bytes. `what` names it in
/// the report of a range that AddressSanitizer forbids.
void touchRead(const void* from, size_t bytes, const char* what);
void touchWrite(void* to, size_t bytes, const char* what);
/// Marks bytes that nobody may touch, for AddressSanitizer; and takes that back.
void forbid(const void* from, size_t bytes);
void allow(const void* from, size_t bytes);

/// The bytes at `address` stand for those of every replica, until unbindMulticast().
void bindMulticast(const void* address, size_t bytes, std::vector<void*> replicas);
void unbindMulticast(const void* address);

/// Called before each store of a word by a kernel's thread that others may wait for, with its
/// device and whether it releases: for links that are not there, or deliver something else than was
/// sent. What it returns is wrong with the store; nothing: the store is made.
using StoreObserver = std::string (*)(int device, void* word, bool releases);
void observeStores(StoreObserver observer);

/// Ends the process with kErrorStatus; `text` names what is wrong. From a kernel's thread the
/// report says which.
[[noreturn]] void fail(const std::string& text);

}  // namespace tutti::emulation
