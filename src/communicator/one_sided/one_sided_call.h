#pragma once

// One-sided calls as values: puts and signals, and waits for signals. A call has one of them; those
// of a group on one stream are one call. Puts go in their order; no wait holds them back.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::communicator {

/// A signal alone has no window.
struct Put {
  int peer = 0;
  uint64_t window = 0;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint32_t signal = 0;
  bool ofGpu = false;                      ///< the data are a GPU's
  bool toGpu = false;                      ///< so is the place that `direct` says
  bool stored = false;                     ///< a stream has stored the data; the signal is left
  std::shared_ptr<std::byte> direct = {};  ///< where this rank stores itself; null: by messages
  std::string describe() const;            ///< "put of 64 bytes to rank 1"
};

struct SignalWait {
  int peer = 0;
  uint32_t signal = 0;
  uint64_t count = 0;
  std::string describe() const;  ///< "wait for 2 signals of rank 1"
};

struct OneSidedCall {
  std::vector<Put> puts;
  std::vector<SignalWait> waits;

  void absorb(OneSidedCall later);
  std::string describe() const;
};

/// How far it has come.
struct OneSidedProgress {
  size_t put = 0;                ///< how many puts are over
  uint64_t bytes = 0;            ///< of the next one
  size_t wait = 0;               ///< how many waits are over
  bool begun = false;            ///< its signals are its own
  std::vector<uint64_t> wanted;  ///< by wait: the count of signals at which it is over
  int64_t sinceNs = 0;           ///< since when it has to wait; 0: it did not so far
  bool listed = false;           ///< among those that are under way
};

}  // namespace tutti::communicator
