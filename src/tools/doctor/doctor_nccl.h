#pragma once

// `tutti doctor --nccl PROGRAM`: which libnccl.so.2 a program loads.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/tools/doctor/doctor_checks.h"

namespace tutti::tools {

/// What is known of a program.
struct NcclUse {
  std::string program;                 ///< as it was asked for
  std::vector<NcclLibrary> libraries;  ///< that it loads
  /// Why more is not known, or why none can be replaced: "it is linked statically"; or empty.
  std::string obstacle;
  std::string own;        ///< path of Tutti's libnccl.so.2; empty where it is not found
  std::string mend = {};  ///< where LD_PRELOAD is none; else empty
};

/// Of a file; throws Error where it cannot be read.
NcclLibrary readNcclLibrary(const std::string& path);

/// Asks the loader which libraries a program is linked with; of Python, which libraries it has when
/// it has imported PyTorch. Ends within `longest`. Throws InvalidArgument where there is no such
/// program.
NcclUse findNccl(const std::string& program, std::chrono::milliseconds longest);

/// What the loader finds for a program without a path of its own: by LD_PRELOAD, LD_LIBRARY_PATH,
/// and its cache. Nothing where it finds none, has not answered within `longest`, or cannot be
/// asked.
std::optional<NcclLibrary> findLoadersNccl(std::chrono::milliseconds longest);
/// Path of Tutti's libnccl.so.2 beside this program; empty where it is not found.
std::string ownNccl();

/// Good: the program loads Tutti's, and no other.
Finding checkNccl(const NcclUse& use);

}  // namespace tutti::tools
