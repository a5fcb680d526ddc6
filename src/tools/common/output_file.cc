#include "src/tools/common/output_file.h"

#include <fstream>

#include "src/base/check.h"

namespace tutti::tools {

void writeFile(const std::string& option, const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) base::fail(ErrorCode::System, option, " ", path, " cannot be written");
}

void requireWritable(const std::string& option, const std::string& path) {
  if (!std::ofstream(path, std::ios::app))
    base::fail(ErrorCode::System, option, " ", path, " cannot be written");
}

}  // namespace tutti::tools
