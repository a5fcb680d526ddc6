#pragma once

// Flags whose value is a list: words between commas, or an array in a file of flags.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace tutti::parallel {

/// The words between the commas of a flag's value. Throws CLI11's error, which names the flag, for
/// an empty one: CLI11's own lists leave it out.
inline std::vector<std::string> listWords(const std::string& flag, const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    if (words.back().empty())
      throw CLI::ValidationError(flag, "\"" + text + "\": between its commas is nothing");
  }
  return words;
}

/// Adds one. `each` is what a word must be; `count` how many there are, 0: any number.
template <class T>
CLI::Option* addListFlag(CLI::App& app, const std::string& flag, std::vector<T>& list,
                         const std::string& about, const CLI::Validator& each, size_t count = 0) {
  const auto take = [&list, flag, each, count](const CLI::results_t& given) {
    std::vector<T> taken;
    for (const std::string& text : given)
      for (std::string& word : listWords(flag, text)) {
        if (const std::string wrong = each(word); !wrong.empty())
          throw CLI::ValidationError(flag, wrong);
        if (!CLI::detail::lexical_cast(word, taken.emplace_back()))
          throw CLI::ConversionError(word, flag);
      }
    if (count > 0 && taken.size() != count)
      throw CLI::ValidationError(
          flag, std::to_string(count) + " are wanted, not " + std::to_string(taken.size()));
    list = std::move(taken);
    return true;
  };
  return app.add_option(flag, CLI::callback_t(take), about)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false)
      ->type_name(each.get_description());
}

}  // namespace tutti::parallel
