#pragma once

// --device of the programs that measure: which kind of device the buffers are on.

#include <string>

#include <tutti/device.h>

namespace tutti::tools {

inline constexpr const char* kDeviceHelp =
    "where the buffers are: host, cuda, or, in the programs of build/tests/emulated, emulated";

/// Throws InvalidArgument for what is none of host, cuda, emulated, and for what this program has
/// not: the emulation is linked into test programs alone, instead of CUDA.
void requireDeviceWord(const std::string& word);

/// The device of a rank: GPUs in turn. Throws Unsupported where there is none.
Device deviceFor(const std::string& word, int rank);

}  // namespace tutti::tools
