#pragma once

// What the tools' JSON is made of: objects whose members stay in the order in which they are
// written.

#include <nlohmann/json.hpp>

namespace tutti::tools {

using Json = nlohmann::ordered_json;

/// An array with what `make` makes of each.
template <class Items, class Make>
Json arrayOf(const Items& items, const Make& make) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(make(item));
  return array;
}

}  // namespace tutti::tools
