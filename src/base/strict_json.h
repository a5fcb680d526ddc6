#pragma once

// Parses JSON from outside. Header only: what includes it has nlohmann-json.

#include <cstdint>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::base {

/// Passes over a text before it is parsed, and refuses what a parser would take: deep nesting, and
/// a key that is there twice, of which only the last would be kept.
class JsonPass final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonPass(const std::string& file) : file_(file) {}

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
    TUTTI_REQUIRE(open_.back().insert(name).second, file_, ": ", printable(name),
                  " is there twice");
    return value();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    // Without "[json.exception.parse_error.101] ", which says nothing to a user.
    std::string_view what = error.what();
    if (const size_t end = what.find("] "); what.starts_with('[') && end != what.npos)
      what.remove_prefix(end + 2);
    fail(ErrorCode::InvalidArgument, file_, " is no JSON: ", printable(what));
  }

 private:
  bool begin() {
    constexpr size_t kDeepest = 64;
    TUTTI_REQUIRE(open_.size() < kDeepest, file_, " is nested more than ", kDeepest, " deep");
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

  const std::string& file_;
  uint64_t count_ = 0;
  std::vector<std::set<std::string>> open_;  ///< the keys of each object around this place
};

/// Throws InvalidArgument naming `file` where `text` is no JSON, is nested more than 64 deep, or an
/// object has a key twice, of which JSON would keep the last. Throws bad_alloc where there is no
/// memory for it.
inline nlohmann::json parseStrictly(const std::string& file, const std::string& text) {
  // The parser takes it for the end of the text.
  const size_t zero = text.find('\0');
  TUTTI_REQUIRE(zero == text.npos, file, " is no JSON: byte ", zero, " is zero");
  JsonPass pass(file);
  nlohmann::json::sax_parse(text, &pass);
  // A parser that finds out by itself that there is no memory ends the process: to give back what
  // it has takes some. Volatile, or the compiler would leave both out.
  constexpr uint64_t kMostBytesOfOne = 160;  // in a map, with its key, beside the text
  void* volatile const room = ::operator new(pass.count() * kMostBytesOfOne + text.size());
  ::operator delete(room);
  return nlohmann::json::parse(text);
}

}  // namespace tutti::base
