#pragma once

// Reads whole files that users name.

#include <cstddef>
#include <string>

namespace tutti::base {

/// The text of a regular file of at most `mostBytes`. A pipe or a device is never opened: that, or
/// reading it to the end, may last for ever. Throws InvalidArgument, which begins with `what` and
/// the path: "the tuning file a.toml".
std::string readText(const std::string& what, const std::string& path, size_t mostBytes);

}  // namespace tutti::base
