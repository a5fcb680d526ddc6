#pragma once

// When a rank's memory on a GPU is freed. CUDA waits for all that runs there, and holds its lock
// meanwhile. If that is a call of which another rank's part is still to be launched, or copies that
// wait for a rank that is gone, and would be told so, nobody could do that any more. So memory is
// freed while nothing is under way, and nothing is launched.

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace tutti::communicator {

class CudaSide;

/// Those of a process.
class CudaSides {
 public:
  static CudaSides& ofProcess();

  void add(CudaSide& side);
  void remove(CudaSide& side);
  /// Held by whoever launches.
  [[nodiscard]] std::shared_lock<std::shared_mutex> launching();
  /// While it is held nothing is launched; and nothing is under way, of one communicator's ranks or
  /// of all, unless their calls do not end together for 5 s, which is logged.
  [[nodiscard]] std::unique_lock<std::shared_mutex> quiet(std::optional<uint64_t> group = {});

 private:
  CudaSides() = default;
  bool isQuiet(std::optional<uint64_t> group);

  std::shared_mutex launching_;
  std::mutex mutex_;
  std::vector<CudaSide*> sides_;
};

}  // namespace tutti::communicator
