#pragma once

// The environment variables TUTTI_* that have a meaning, and what the log says of others: a name
// with a slip in it would otherwise change nothing, and say nothing.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::base {

/// Those of docs/reference/environment.md that begin with TUTTI_.
std::span<const std::string_view> knownVariables();
/// Those of building, tests, benchmarks and the emulation, which programs may inherit.
std::span<const std::string_view> developersVariables();

/// The other variables of an environment that begin with TUTTI_, sorted, as messages show them:
/// "TUTTI_TRANSPROT (did you mean TUTTI_TRANSPORT?)". `environment` is as the environ of C:
/// NAME=VALUE, and a null pointer behind the last.
std::vector<std::string> unknownVariables(const char* const* environment);

/// Logs a warning that names those of this process, once.
void warnOfUnknownVariables();

}  // namespace tutti::base
