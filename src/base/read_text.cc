#include "src/base/read_text.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::base {

std::string readText(const std::string& what, const std::string& path, size_t mostBytes) {
  const std::string name = message(what, ' ', printable(path));
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  std::ifstream file;
  if (regular) file.open(path, std::ios::binary);
  TUTTI_REQUIRE(file.is_open(), name,
                regular ? " cannot be opened" : " is not there, or is no regular file");
  std::string text;
  std::array<char, 1 << 16> part;
  while (file.read(part.data(), part.size()), file.gcount() > 0) {
    text.append(part.data(), static_cast<size_t>(file.gcount()));
    TUTTI_REQUIRE(text.size() <= mostBytes, name, " has more than ", mostBytes, " bytes");
  }
  TUTTI_REQUIRE(!file.bad(), name, " cannot be read");
  return text;
}

}  // namespace tutti::base
