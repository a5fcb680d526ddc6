#pragma once

// Quantities as people read them.

#include <cstdint>
#include <string>

#include "src/topology/machine.h"

namespace tutti::tools {

/// "512 bytes", "1.5 GiB": three digits that matter.
std::string bytesText(uint64_t bytes);
/// "7.29 us", "3.84 ms", "12.5 s".
std::string timeText(double microseconds);
/// "34.4 GFLOP": so many operations.
std::string flopText(double operations);
/// "25 Gbit/s", "2.5 Gbit/s".
std::string rateText(double gigabitsPerSecond);
/// "1 core", "2 cores".
std::string countText(uint64_t count, const std::string& thing);

/// "PU 3", "PUs 0-2,5".
std::string numbersText(const std::string& thing, const topology::CpuSet& numbers);

}  // namespace tutti::tools
