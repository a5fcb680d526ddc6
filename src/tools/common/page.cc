#include "src/tools/common/page.h"

#include <algorithm>
#include <sstream>

#include "src/base/printable.h"

namespace tutti::tools {

std::string Page::padded(const std::string& label) const {
  std::string column = label;
  column.resize(std::max(label.size() + 1, labelColumns_), ' ');
  return column;
}

void Page::line(const std::string& label, const std::string& words) {
  std::string row = padded(label);
  std::istringstream in(words);
  bool first = true;  // on its line
  for (std::string word; in >> word;) {
    if (!first && row.size() + 1 + word.size() > kColumns) {
      raw(row);
      row = padded("");
      first = true;
    }
    row += (first ? "" : " ") + word;
    first = false;
  }
  raw(row);
}

void Page::raw(const std::string& words) {
  text_ += base::printable(words.substr(0, words.find_last_not_of(' ') + 1)) + "\n";
}

void Page::rows(const std::string& lines) {
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) raw(line);
}

void Page::heading(const std::string& words) {
  text_ += "\n";
  raw(words);
}

}  // namespace tutti::tools
