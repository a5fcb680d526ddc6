#pragma once

// What to say of a word that is none of some names: which names there are, and which one is
// probably meant.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::base {

/// The name that is nearest to the word, by letters that are left out, added, replaced or swapped
/// with their neighbor; capitals count as small ones. Nothing where a third of the letters and more
/// would have to change. Of several the first.
std::optional<std::string> nearestName(std::string_view word,
                                       std::span<const std::string_view> names);
std::optional<std::string> nearestName(std::string_view word, std::span<const std::string> names);

/// "a, b or c".
std::string listOfNames(std::span<const std::string> names);

/// "; did you mean ring?", or nothing where none is near. `prefix` stands before the name that is
/// shown: the names and the word are without it.
std::string didYouMean(std::string_view word, std::span<const std::string> names,
                       std::string_view prefix = "");

/// "adm is not adamw or sgd; did you mean adamw?": why a word is refused that is none of `names`.
std::string noneOf(std::string_view word, std::span<const std::string> names);

}  // namespace tutti::base
