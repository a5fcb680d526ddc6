#pragma once

// A flag that takes some words and no others. Header only: what includes it has CLI11.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "src/base/nearest_name.h"

namespace tutti::base {

/// The words that a flag takes, as --help shows them. Another one is refused as noneOf() says.
inline CLI::Validator oneOf(std::vector<std::string> words) {
  std::string shown = "{";
  for (const std::string& word : words) shown += (shown.size() > 1 ? "," : "") + word;
  return CLI::Validator(
      [words = std::move(words)](const std::string& word) {
        return std::ranges::count(words, word) > 0 ? std::string() : noneOf(word, words);
      },
      shown + "}");
}

}  // namespace tutti::base
