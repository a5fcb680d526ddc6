#pragma once

// The ranks of a program with one of nccl-tests' names: threads of one process, or of every process
// that a launcher has started.

#include <chrono>
#include <functional>
#include <string>

#include <tutti/communicator.h>

namespace tutti::tools {

struct RanksHere {
  int count = 1;
  /// Ranks of one process join by themselves instead of being made together.
  bool join = false;
  std::chrono::milliseconds timeout{0};  ///< of one operation; 0: the library's
  std::string device = "host";           ///< see device_option.h
};

/// Calls `body` on every rank of this process, each on a thread of its own: all processes of the
/// launcher's job have as many, and process p has ranks p * count and on. Returns the largest of
/// what `body` returns. When one fails it throws the first failure, once all ranks have ended.
int onRanks(const RanksHere& here, const std::function<int(Communicator&)>& body);

}  // namespace tutti::tools
