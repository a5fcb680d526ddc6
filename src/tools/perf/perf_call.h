#pragma once

// One rank's calls of one size, for whoever times them: their buffers, how they are made, and
// whether what they deliver is right.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <tutti/communicator.h>

#include "src/tools/perf/perf_check.h"
#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

/// The clock of all timings, microseconds.
double nowUs();

/// For tests of the check itself: makes a checked call, or does not, and may change what it has
/// delivered. None: makes it.
using PerfSeam =
    std::function<void(const std::function<void()>& call, std::byte* result, size_t bytes)>;

/// Memory of one size: a GPU's, or the host's, in a window or ordinary. A GPU's is filled and
/// looked at in a copy of the host's. Throws OutOfMemory where it cannot be had.
class PerfBuffer {
 public:
  PerfBuffer(Communicator& c, uint64_t bytes, bool window);
  std::byte* data() { return memory_ ? memory_.as<std::byte>() : ordinary_.data(); }
  /// What the host sees of `place`, which is in data().
  std::byte* host(std::byte* place) { return onGpu_ ? ordinary_.data() + (place - data()) : place; }
  void upload();    ///< the copy to the GPU
  void download();  ///< and back
  /// Overwrites what a call before may have left here, which could pass for a result.
  void spoil();
  // A word of each line of the caches, in memory of the host.
  void rewrite();
  void read() const;

 private:
  const uint64_t bytes_;
  const bool onGpu_;
  Memory memory_;
  std::vector<std::byte> ordinary_;
};

class PerfCall {
 public:
  /// Calls go to `stream`, if there is one; else they are complete when start() returns. `bytes` is
  /// the size asked for, of the larger buffer. Everything passed by reference must outlive it.
  /// Collective: all ranks throw, or none, where there is no memory on one.
  PerfCall(Communicator& c, const PerfOptions& options, const PerfSeam& seam, uint64_t bytes,
           Stream* stream = nullptr);
  /// The same calls as `other`'s through another communicator of its ranks, on the same memory,
  /// which may not be in windows: those are a communicator's own.
  PerfCall(Communicator& c, const PerfCall& other);

  uint64_t bytes() const;  ///< of the larger buffer
  uint64_t count() const { return pattern_.shape.count; }
  void start(bool inPlace);
  /// What the owner of the buffers does between calls: rewrites what it sends and reads what it has
  /// received. Its core's caches have that then, as they mostly do in a program.
  void use(bool inPlace);
  /// Waits for the calls that were started.
  void finish();
  /// Collective: makes a call with data that differ by `repetition`, and counts the elements that
  /// are wrong over all ranks. Names the first of this rank on standard error.
  int64_t countWrong(bool inPlace, uint64_t repetition = 0);

 private:
  struct Places {
    PerfBuffer& from;
    std::byte* send;
    PerfBuffer& to;
    std::byte* recv;
  };
  Places buffers(bool inPlace);
  void collective(const std::byte* send, std::byte* recv);
  void exchange(const std::byte* send, std::byte* recv);
  void sendToNext(const std::byte* send, std::byte* recv);
  void hyperCube(const std::byte* send, std::byte* recv);

  Communicator& c_;
  const PerfOptions& o_;
  const PerfSeam& seam_;
  Stream* const stream_;
  const StreamRef ref_;
  PerfPattern pattern_;
  const uint64_t seed_;
  const std::vector<size_t> uneven_;  // blocks of different sizes, by peer
  std::shared_ptr<PerfBuffer> in_, out_;
};

/// Throws InvalidArgument for options that do not fit the communicator.
void requireFit(const PerfOptions& options, const Communicator& c);

/// Collective: throws OutOfMemory where there is no memory for the buffers of so many PerfCalls on
/// all ranks. Each PerfCall asks for itself; who makes several asks before the first.
void requireMemoryForCalls(Communicator& c, const PerfOptions& options, uint64_t bytes,
                           size_t calls);

}  // namespace tutti::tools
