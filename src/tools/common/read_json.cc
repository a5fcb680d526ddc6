#include "src/tools/common/read_json.h"

#include <new>

#include "src/base/read_text.h"
#include "src/base/strict_json.h"

namespace tutti::tools {
namespace {

constexpr size_t kLongestLine = 1 << 20, kMostLines = 1'000'000;
constexpr size_t kMostFileBytes = 512 << 20;

/// False at the end.
bool nextLine(std::istream& lines, std::string& line) {
  line.clear();
  for (char c = 0; lines.get(c);) {
    if (c == '\n') return true;
    if (line.size() == kLongestLine) throw std::runtime_error("it is longer than 1 MiB");
    line += c;
  }
  return !line.empty();
}

}  // namespace

std::istringstream jsonLinesOf(const std::string& flag, const std::string& file) {
  return std::istringstream(base::readText(flag, file, kMostFileBytes));
}

void readJsonLines(std::istream& lines, const std::string& where,
                   const std::function<void(const nlohmann::json&)>& read) {
  size_t number = 1;
  try {
    for (std::string line; nextLine(lines, line); ++number) {
      if (number > kMostLines) throw std::runtime_error("there are more than a million lines");
      const nlohmann::json object = base::parseStrictly("this", line);
      if (!object.is_object()) throw std::runtime_error("not an object");
      read(object);
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    // nlohmann's own begin with "[json.exception.out_of_range.403] ".
    const std::string why = e.what();
    const size_t end = why.starts_with("[json.") ? why.find("] ") : std::string::npos;
    base::fail(ErrorCode::InvalidArgument, where, ", line ", number, ": ",
               end == std::string::npos ? why : why.substr(end + 2));
  }
}

}  // namespace tutti::tools
