#pragma once

// Whether a program can run on emulated GPUs: what its file, and the files of its interpreters,
// tell.

#include <sys/types.h>

#include <string>

namespace tutti::tools {

/// The libraries that stand for a GPU, its driver and NCCL.
struct EmulationLibraries {
  std::string runtime, driver, nccl;  ///< paths
  /// The runtime's name in programs that are linked with it: "libcudart.so.13".
  std::string runtimeName() const;
  /// For LD_PRELOAD, behind what it has already.
  std::string preloadedAfter(const std::string& before) const;
};

/// Those of a folder. Throws Error saying how to install them where they are not there.
EmulationLibraries findEmulation(const std::string& folder);

/// Throws Error naming the program, or the interpreter of a script, and why it cannot be emulated.
void requireEmulated(const std::string& path, const EmulationLibraries& libraries);

/// Whether a program of that mode and owner runs with other rights than those of whoever starts it.
/// Such a program preloads nothing.
bool changesRights(mode_t mode, uid_t owner, gid_t group, uid_t user, gid_t userGroup);

}  // namespace tutti::tools
