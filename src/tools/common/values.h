#pragma once

// Numbers and lists that flags take.

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tools {

/// "8", "64K", "1.5M", "2G": bytes, rounded down as nccl-tests does. Throws InvalidArgument naming
/// `flag`.
uint64_t parseBytes(const std::string& flag, const std::string& text);

/// A whole number. Throws InvalidArgument naming `flag` when it is none of least..most.
int64_t parseWhole(const std::string& flag, const std::string& text, int64_t least, int64_t most);

/// The words of a list with commas. Throws InvalidArgument naming `flag` when one is empty.
std::vector<std::string> parseList(const std::string& flag, const std::string& text);

}  // namespace tutti::tools
