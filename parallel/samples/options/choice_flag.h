#pragma once

// Flags whose words stand for values.

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "parallel/samples/options/flags.h"
#include "src/base/one_of.h"

namespace tutti::parallel {

/// Adds one: `value` becomes what the word stands for. Another word is refused as base::noneOf()
/// says.
template <class Value>
CLI::Option* addChoiceFlag(CLI::App& app, const std::string& flag, Value& value,
                           const std::vector<std::pair<std::string, Value>>& choices,
                           const std::string& about) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.push_back(word);
  const auto take = [&value, choices](const std::string& given) {
    for (const auto& [word, meaning] : choices)
      if (word == given) value = meaning;
  };
  return app.add_option_function<std::string>(flag, take, about)->check(base::oneOf(words));
}

}  // namespace tutti::parallel
