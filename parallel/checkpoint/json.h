#pragma once

// JSON from files that anybody may have written: read strictly, within bounds, and with errors that
// name the place.

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::parallel {

using Json = nlohmann::json;
/// For what is written: members stay in their order.
using OrderedJson = nlohmann::ordered_json;

/// A name as errors show it: in quotes, escaped, and cut when it is long.
std::string inQuotes(std::string_view name);

/// One JSON value. Throws InvalidArgument, beginning with `where`, when the text is anything else,
/// is not UTF-8, has a key twice in one object, or is nested deeper than 8 levels; OutOfMemory
/// where its values do not fit.
Json parseJson(const std::string& where, std::string_view text);

/// The largest whole number that a file may have.
constexpr int64_t kMostWhole = std::numeric_limits<int64_t>::max();

/// A whole number from `least` to `most`.
int64_t wholeNumber(const std::string& where, const Json& value, int64_t least, int64_t most);

/// The members of an object, taken one by one. Each call throws InvalidArgument with the place and
/// the member's name when it is not there or not of that kind.
class Members {
 public:
  Members(std::string where, const Json& value);
  const Json& take(const char* key);
  bool has(const char* key) const { return object_.contains(key); }
  const Json& object(const char* key);
  const Json& list(const char* key);
  std::string text(const char* key);
  bool flag(const char* key);
  double number(const char* key);
  int64_t whole(const char* key, int64_t least, int64_t most);
  /// Whole numbers that are not negative, at most `most` of them.
  std::vector<int64_t> wholes(const char* key, size_t most);
  /// Refuses members that nobody took.
  void finish() const;
  std::string place(const char* key) const { return where_ + ": " + key; }

 private:
  const std::string where_;
  const Json& object_;
  std::vector<std::string> taken_;
};

}  // namespace tutti::parallel
