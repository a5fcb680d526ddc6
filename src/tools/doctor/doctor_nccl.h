#pragma once

// `tutti doctor --nccl PROGRAM`: which libnccl.so.2 a program loads.

#include <chrono>
#include <string>
#include <vector>

#include "src/tools/doctor/doctor_checks.h"

namespace tutti::tools {

/// A library with NCCL's names, as its file tells.
struct NcclLibrary {
  std::string path;
  bool isTutti = false;
  std::string version;  ///< "2.30.7"; empty where the file does not say
};

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

/// Good: the program loads Tutti's, and no other.
Finding checkNccl(const NcclUse& use);

}  // namespace tutti::tools
