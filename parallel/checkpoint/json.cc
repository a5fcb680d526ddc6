#include "parallel/checkpoint/json.h"

#include <algorithm>
#include <limits>
#include <new>
#include <set>

#include "parallel/tensor/check.h"

namespace tutti::parallel {
namespace {

constexpr size_t kMostLevels = 8;

/// Passes over a text and refuses what a parser would take: deep nesting, and a key that is there
/// twice, of which only the last would be kept.
class Strict final : public nlohmann::json_sax<Json> {
 public:
  explicit Strict(const std::string& where) : where_(where) {}

  /// Values and keys.
  uint64_t count() const { return count_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    if (!open_.back().insert(name).second)
      fail(ErrorCode::InvalidArgument, where_, ": ", inQuotes(name), " is there twice");
    return value();
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    fail(ErrorCode::InvalidArgument, where_, ": this is no JSON, at byte ", position);
  }

 private:
  bool begin() {
    require(open_.size() < kMostLevels, where_, ": more than ", kMostLevels, " levels of nesting");
    open_.emplace_back();
    return value();
  }
  bool value() {
    ++count_;
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  const std::string& where_;
  uint64_t count_ = 0;
  std::vector<std::set<std::string>> open_;  ///< the keys of each object around this place
};

/// Throws bad_alloc where there is no memory for so many values. A parser that found that out by
/// itself would end the process: what it has by then takes memory to be given back.
void requireRoom(uint64_t values, uint64_t textBytes) {
  constexpr uint64_t kMostBytesOfOne = 160;  // in a map, with its key, beside the text
  // Volatile, or the compiler would leave both out.
  void* volatile const room = ::operator new(values* kMostBytesOfOne + textBytes);
  ::operator delete(room);
}

}  // namespace

std::string inQuotes(std::string_view name) {
  constexpr size_t kShown = 100;
  const Json shown = std::string(name.substr(0, kShown));
  return shown.dump(-1, ' ', false, Json::error_handler_t::replace) +
         (name.size() > kShown ? "..." : "");
}

Json parseJson(const std::string& where, std::string_view text) {
  // The parser takes a zero for the end of the text.
  const size_t zero = text.find('\0');
  require(zero == text.npos, where, ": this is no JSON, at byte ", zero);
  Strict strict(where);
  return inMemory(where, text.size(), [&] {
    Json::sax_parse(text, &strict);
    requireRoom(strict.count(), text.size());
    return Json::parse(text);
  });
}

int64_t wholeNumber(const std::string& where, const Json& value, int64_t least, int64_t most) {
  require(value.is_number_integer(), where, ": this is no whole number");
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{kMostWhole};
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < least || number > most)
    fail(ErrorCode::InvalidArgument, where, ": ", value.dump(), " is not between ", least, " and ",
         most);
  return number;
}

Members::Members(std::string where, const Json& value) : where_(std::move(where)), object_(value) {
  require(value.is_object(), where_, ": this is no object");
}

const Json& Members::take(const char* key) {
  const auto found = object_.find(key);
  require(found != object_.end(), where_, ": there is no ", key);
  if (std::ranges::find(taken_, key) == taken_.end()) taken_.emplace_back(key);
  return *found;
}

const Json& Members::object(const char* key) {
  const Json& value = take(key);
  require(value.is_object(), where_, ": ", key, ": this is no object");
  return value;
}

const Json& Members::list(const char* key) {
  const Json& value = take(key);
  require(value.is_array(), where_, ": ", key, ": this is no list");
  return value;
}

std::string Members::text(const char* key) {
  const Json& value = take(key);
  require(value.is_string(), where_, ": ", key, ": this is no text");
  return value.get<std::string>();
}

bool Members::flag(const char* key) {
  const Json& value = take(key);
  require(value.is_boolean(), where_, ": ", key, ": this is neither true nor false");
  return value.get<bool>();
}

double Members::number(const char* key) {
  const Json& value = take(key);
  require(value.is_number(), where_, ": ", key, ": this is no number");
  return value.get<double>();
}

int64_t Members::whole(const char* key, int64_t least, int64_t most) {
  return wholeNumber(place(key), take(key), least, most);
}

std::vector<int64_t> Members::wholes(const char* key, size_t most) {
  const Json& values = list(key);
  require(values.size() <= most, where_, ": ", key, ": ", values.size(), " numbers, more than ",
          most);
  std::vector<int64_t> numbers;
  for (const Json& value : values) numbers.push_back(wholeNumber(place(key), value, 0, kMostWhole));
  return numbers;
}

void Members::finish() const {
  if (object_.size() == taken_.size()) return;
  for (const auto& [key, value] : object_.items())
    if (std::ranges::find(taken_, key) == taken_.end())
      fail(ErrorCode::InvalidArgument, where_, ": ", inQuotes(key), " is no member of this");
}

}  // namespace tutti::parallel
