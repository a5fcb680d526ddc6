#pragma once

#include <string>

namespace tutti::tools {

/// Writes `text` to the file that an option names. Throws System naming both where it cannot be
/// written, the disk being full included.
void writeFile(const std::string& option, const std::string& path, const std::string& text);
/// The same error, before there is a text. What is in the file stays; one that was not there is
/// empty.
void requireWritable(const std::string& option, const std::string& path);

}  // namespace tutti::tools
