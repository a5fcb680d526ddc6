#pragma once

// What there is in a picture that base::Svg has written.

#include <regex>
#include <string>
#include <vector>

namespace tutti::parallel {

class SvgParts {
 public:
  explicit SvgParts(std::string document) : document_(std::move(document)) {}

  int rectangles() const { return count("<rect "); }
  int rectangles(const std::string& fill) const { return count("fill=\"" + fill + "\" stroke"); }
  int lines() const { return count("<line "); }
  /// Those that say this and nothing else.
  int texts(const std::string& words) const { return count(">" + words + "</text>"); }
  /// Those that begin so, in their order.
  std::vector<std::string> textsWith(const std::string& begin) const {
    const std::regex text(">(" + begin + "[^<]*)</text>");
    std::vector<std::string> all;
    for (std::sregex_iterator at(document_.begin(), document_.end(), text), end; at != end; ++at)
      all.push_back((*at)[1]);
    return all;
  }

 private:
  int count(const std::string& part) const {
    int found = 0;
    for (size_t at = 0; (at = document_.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  }
  const std::string document_;
};

}  // namespace tutti::parallel
