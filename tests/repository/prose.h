#pragma once

// The rules of prose, for pages (*.md) and for the comments of headers. A sentence, a paragraph and
// a table cell have a longest length in words, and some words have a replacement in the glossary.
//
// Comments are read as pages are: Doxygen takes Markdown. Each item of a list is a paragraph of its
// own. Left out are code blocks, front matter, HTML comments, link targets and images. Inline code
// counts as one word. Headings are only searched for forbidden words.

#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace tutti::repository {

inline constexpr size_t kLongestSentence = 35;    // words
inline constexpr size_t kLongestParagraph = 120;  // words
inline constexpr size_t kLongestCell = 30;        // words

/// A word that the glossary replaces, in lower case with single spaces.
struct ForbiddenWord {
  std::string word;
  std::string replacement;
};

/// Reads the last table of the glossary: phrases separated by commas, and what to use instead.
std::vector<ForbiddenWord> forbiddenWords(const SourceFile& glossary);

/// Where forbidden words are allowed: nowhere, in table cells, or everywhere.
enum class Exempt { Nothing, Cells, Everything };

/// What breaks a rule, each as "path:line: what, how long: how it begins".
std::vector<std::string> checkPage(const SourceFile& page, const std::vector<ForbiddenWord>& words,
                                   Exempt exempt = Exempt::Nothing);
/// The same for the comments of C and C++ source. Adjacent lines of `//` or of `///` are joined. A
/// blank comment line, another kind of comment and code end the paragraph.
std::vector<std::string> checkComments(const SourceFile& source,
                                       const std::vector<ForbiddenWord>& words);

}  // namespace tutti::repository
