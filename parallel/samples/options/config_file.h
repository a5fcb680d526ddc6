#pragma once

// A program's flags in a TOML file. Each key is a flag without its dashes; what the command line
// says goes before it.
//
//   dp = 2                    --dp 2
//   tp = 2                    --tp 2
//   schedule = "zb-h1"        --schedule zb-h1
//   stages = [3, 3, 2]        --stages 3,3,2
//   deterministic = true      --deterministic

#include <cstdint>

namespace CLI {
class App;
}  // namespace CLI

namespace tutti::parallel {

inline constexpr uint64_t kMostConfigBytes = 1 << 20;  ///< that a file of settings may have

/// Adds --config. Parsing then throws InvalidArgument naming file and line when the file is no
/// TOML, a key is no flag, or its value is none for it: tables, dates, nested arrays, and what the
/// flag itself would refuse; and what CLI11 throws when the file cannot be read, or flags are
/// against each other.
void addConfigFlag(CLI::App& app);

}  // namespace tutti::parallel
