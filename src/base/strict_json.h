#pragma once

// Parses JSON from outside. Header only: what includes it has nlohmann-json.

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::base {

/// Throws InvalidArgument naming `file` where `text` is no JSON, is nested more than 64 deep, or an
/// object has a key twice, of which JSON would keep the last.
inline nlohmann::json parseStrictly(const std::string& file, const std::string& text) {
  using Json = nlohmann::json;
  constexpr size_t kDeepest = 64;
  std::vector<std::set<std::string>> open;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    TUTTI_REQUIRE(depth <= static_cast<int>(kDeepest), file, " is nested more than ", kDeepest,
                  " deep");
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key)
      TUTTI_REQUIRE(open.back().insert(parsed.get<std::string>()).second, file, ": ",
                    printable(parsed.get<std::string>()), " is there twice");
    return true;
  };
  try {
    return Json::parse(text, look);
  } catch (const Json::exception& error) {
    fail(ErrorCode::InvalidArgument, file, " is no JSON: ", error.what());
  }
}

}  // namespace tutti::base
