// Pages and the comments of public headers keep to the rules of prose.h, and the check notices each
// way in which they could not. Argument: the source tree.

#include "tests/repository/prose.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}};
constexpr const char* kGlossary = "docs/glossary.md";

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

/// `count` words, of which the last ends a sentence.
std::string sentence(size_t count) {
  std::string text = "One";
  for (size_t i = 1; i < count; ++i) text += " word";
  return text + ".";
}
std::string sentences(size_t count, size_t words) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += sentence(words) + "\n";
  return text;
}

const std::vector<ForbiddenWord> kWords = {{"lend", "zero-copy send"}, {"far peer", "remote peer"}};

std::vector<std::string> page(const std::string& text, Exempt exempt = Exempt::Nothing) {
  return checkPage({"a.md", lines(text)}, kWords, exempt);
}
std::vector<std::string> comments(const std::string& text) {
  return checkComments({"a.h", lines(text)}, kWords);
}
const std::vector<std::string> kNone;

/// Prints how many findings each file has, and fails with all of them.
void expectNone(const std::vector<std::string>& findings) {
  std::map<std::string, int> perFile;
  std::string all;
  for (const std::string& finding : findings) {
    ++perFile[finding.substr(0, finding.find(':'))];
    all += finding + "\n";
  }
  for (const auto& [file, count] : perFile) printf("%6d %s\n", count, file.c_str());
  EXPECT_TRUE(findings.empty()) << all;
}

std::vector<ForbiddenWord> wordsOfTheGlossary(const std::vector<SourceFile>& files) {
  for (const SourceFile& file : files)
    if (file.path == kGlossary) return forbiddenWords(file);
  return {};
}

/// What the glossary says is in the code, without the words of its last table.
std::vector<std::string> namesOfTheGlossary(const std::vector<SourceFile>& files) {
  static const std::regex kName("`([^`]+)`");
  std::vector<std::string> names;
  for (const SourceFile& file : files) {
    if (file.path != kGlossary) continue;
    for (const std::string& line : file.lines) {
      if (line == "## Words that we replace") return names;
      if (!line.starts_with('|')) continue;
      const std::string cell = line.substr(line.rfind('|', line.size() - 2));
      for (std::sregex_iterator at(cell.begin(), cell.end(), kName), end; at != end; ++at)
        names.push_back((*at)[1]);
    }
  }
  return names;
}

/// Whether it is a path of the tree, or all of its words stand in its sources.
bool isThere(const std::string& name, const std::set<std::string>& words) {
  static const std::regex kWord("[A-Za-z_][A-Za-z0-9_]*");
  if (name.find('/') != std::string::npos)
    return std::filesystem::exists(std::filesystem::path(sourceRoot) /
                                   name.substr(0, name.find('*')));
  for (std::sregex_iterator at(name.begin(), name.end(), kWord), end; at != end; ++at)
    if (!words.contains(at->str())) return false;
  return true;
}

Exempt exemptionOf(const std::string& path) {
  if (path == kGlossary) return Exempt::Everything;
  return path == "CHANGELOG.md" ? Exempt::Cells : Exempt::Nothing;  // its table of new names
}

TEST(Prose, OfPagesKeepsToTheRules) {
  const auto files = readTree(sourceRoot);
  const auto words = wordsOfTheGlossary(files);
  EXPECT_GE(words.size(), 20u) << kGlossary;
  std::vector<std::string> findings;
  size_t pages = 0;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".md")) continue;
    ++pages;
    for (auto& finding : checkPage(file, words, exemptionOf(file.path)))
      findings.push_back(std::move(finding));
  }
  EXPECT_GE(pages, 20u) << sourceRoot;
  expectNone(findings);
}

TEST(Prose, OfPublicHeadersKeepsToTheRules) {
  const auto files = readTree(sourceRoot);
  const auto words = wordsOfTheGlossary(files);
  std::vector<std::string> findings;
  size_t headers = 0;
  for (const SourceFile& file : files) {
    if (!file.path.starts_with("include/") || !isCode(file.path)) continue;
    ++headers;
    for (auto& finding : checkComments(file, words)) findings.push_back(std::move(finding));
  }
  EXPECT_GE(headers, 10u) << sourceRoot;
  expectNone(findings);
}

TEST(Prose, OfTheGlossaryNamesWhatIsThere) {
  const auto files = readTree(sourceRoot);
  static const std::regex kWord("[A-Za-z_][A-Za-z0-9_]*");
  std::set<std::string> words;
  for (const SourceFile& file : files)
    if (isCode(file.path) && !file.path.starts_with("tests/repository/"))
      for (const std::string& line : file.lines)
        for (std::sregex_iterator at(line.begin(), line.end(), kWord), end; at != end; ++at)
          words.insert(at->str());
  const auto names = namesOfTheGlossary(files);
  EXPECT_GE(names.size(), 60u);
  for (const std::string& name : names) EXPECT_TRUE(isThere(name, words)) << name;
  EXPECT_FALSE(isThere("executor::NothingOfThatName", words));
  EXPECT_FALSE(isThere("src/nothing_of_that_name", words));
}

TEST(Prose, HasShortSentences) {
  EXPECT_EQ(page(sentence(35)), kNone);
  ASSERT_EQ(page("\n" + sentence(36)).size(), 1u);
  EXPECT_EQ(page("\n" + sentence(36))[0],
            "a.md:2: sentence of 36 words, at most 35: One word word word word word ...");
  EXPECT_EQ(page(sentence(20) + "\n" + sentence(36))[0].substr(0, 7), "a.md:2:");
  EXPECT_EQ(page(sentence(20) + " " + sentence(20)), kNone);
  EXPECT_EQ(page(sentence(20).substr(0, 20) + "\n" + sentence(36)).size(), 1u) << "goes on";
}

TEST(Prose, EndsSentencesWhereTheyEnd) {
  const std::string half = sentence(20).substr(0, sentence(20).size() - 1);
  for (const char* end : {".", "!", "?", ".)", ".\"", ".**"})
    EXPECT_EQ(page(half + end + " " + half + "."), kNone) << end;
  EXPECT_EQ(page(half + " `x`. `y` " + half + "."), kNone);
  for (const char* middle : {",", ";", ":", ", e.g. a", ", i.e. a", " of a.b", " of version 1.2.3",
                             " (a, b, ...)", " of a, b etc. and", " `a. b`"})
    EXPECT_EQ(page(half + middle + " and " + half + ".").size(), 1u) << middle;
  EXPECT_EQ(page(half + " etc. " + half + "."), kNone) << "a capital follows";
}

TEST(Prose, HasShortParagraphs) {
  EXPECT_EQ(page(sentences(6, 20)), kNone);
  const auto found = page(sentences(6, 20) + "Word.");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(0, 45), "a.md:1: paragraph of 121 words, at most 120: ");
  EXPECT_EQ(page(sentences(6, 20) + "\n" + sentences(6, 20)), kNone);
  EXPECT_EQ(page(sentences(6, 20) + "- " + sentences(6, 20) + "- " + sentences(6, 20)), kNone);
  EXPECT_EQ(page("- " + sentences(3, 20) + "  " + sentences(4, 20)).size(), 1u) << "one item";
  EXPECT_EQ(page("> " + sentences(3, 20) + "> " + sentences(4, 20)).size(), 1u) << "a quotation";
}

TEST(Prose, HasShortCells) {
  const std::string thirty = sentence(30), more = sentence(31);
  EXPECT_EQ(page("| a | b |\n|---|:-:|\n| " + thirty + " | `x|y` |\n"), kNone);
  const auto found = page("| a | b |\n|---|---|\n| x | " + more + " |\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(0, 38), "a.md:3: cell of 31 words, at most 30: ");
  EXPECT_EQ(page("| " + thirty + " \\| and |\n").size(), 1u) << "an escaped bar ends no cell";
}

TEST(Prose, UsesTheWordsOfTheGlossary) {
  EXPECT_EQ(page("Do not blend; friends lends_a far-off peer."), kNone);
  ASSERT_EQ(page("Line.\nWe Lend it.").size(), 1u);
  EXPECT_EQ(page("Line.\nWe Lend it.")[0],
            "a.md:2: \"lend\": the glossary says \"zero-copy send\"");
  EXPECT_EQ(page("It is a far\npeer, (lend).").size(), 2u);
  EXPECT_EQ(page("# How to lend\n").size(), 1u);
  EXPECT_EQ(page("| lend |\n").size(), 1u);
  EXPECT_EQ(page("[text](lend.md) `lend` <!-- lend -->\n"), kNone);
  EXPECT_EQ(page("| lend |\n", Exempt::Cells), kNone);
  EXPECT_EQ(page("We lend.\n", Exempt::Cells).size(), 1u);
  EXPECT_EQ(page("We lend.\n", Exempt::Everything), kNone);
  EXPECT_EQ(page(sentence(36), Exempt::Everything).size(), 1u);
}

TEST(Prose, ReadsForbiddenWordsFromTheLastTable) {
  const auto found = forbiddenWords({"g.md", lines("| Term | Meaning |\n|---|---|\n| rank | one |\n"
                                                   "\n## Not\n\nText.\n\n| Not | Use |\n|---|---|\n"
                                                   "| Lend, far peer | send |\n| x | y |\n")});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].word + "=" + found[0].replacement, "lend=send");
  EXPECT_EQ(found[1].word, "far peer");
  EXPECT_EQ(found[2].word + "=" + found[2].replacement, "x=y");
}

TEST(Prose, LeavesOutWhatIsNoProse) {
  const std::string longest = sentence(40);
  for (const std::string& text :
       {"```sh\n" + longest + "\n```\n", "- a\n\n  ~~~\n" + longest + "\n  ~~~\n",
        "Text:\n\n    " + longest + "\n", "---\ntitle: " + longest + "\n---\n",
        "# " + longest + "\n", longest + "\n=====\n", "<!--\n" + longest + "\n-->\n",
        "`" + longest + "`\n", "[a](b \"" + longest + "\")\n", "![" + longest + "](a.png)\n",
        "[a]: b \"" + longest + "\"\n", "<p title=\"" + longest + "\">\n"})
    EXPECT_EQ(page(text), kNone) << text;
  for (const std::string& text :
       {"```sh\nx\n```\n" + longest, "- a\n\n    " + longest, "    " + longest + "\n\n" + longest,
        "!!! note\n    " + longest, "---\na: b\n---\n" + longest, "<!-- a -->\n" + longest,
        "[" + longest + "](b)\n", "Text\n    " + longest, "<b>" + longest + "</b>", "1. " + longest,
        "> " + longest})
    EXPECT_EQ(page(text).size(), 1u) << text;
}

TEST(Prose, OfCommentsIsHeldToTheSame) {
  const std::string half = sentence(20).substr(0, 20), longest = sentence(36);
  for (const std::string& text :
       {"// " + longest, "/// " + longest, "int a;  ///< " + longest, "/* " + longest + " */",
        "/* a\n * b.\n *\n * " + longest + "\n */", "/// \\param size " + longest,
        "/// - " + longest})
    EXPECT_EQ(comments(text).size(), 1u) << text;
  EXPECT_EQ(comments("// " + longest)[0].substr(0, 38), "a.h:1: sentence of 36 words, at most 3");
  EXPECT_EQ(comments("int a;  ///< x\n" + std::string(8, ' ') + "///< " + longest)[0].substr(0, 5),
            "a.h:1");
  EXPECT_EQ(comments("// we lend\nint lend;\n").size(), 1u);
}

TEST(Prose, OfCommentsJoinsAdjacentLines) {
  const std::string part = "one two three four five six seven eight nine ten eleven twelve";
  EXPECT_EQ(comments("// " + part + "\n// " + part + "\n// " + part).size(), 1u);
  EXPECT_EQ(
      comments("  int a;  ///< " + part + "\n          ///< " + part + "\n          ///< " + part)
          .size(),
      1u);
  EXPECT_EQ(comments("/* " + part + "\n * " + part + "\n * " + part + " */").size(), 1u);
  for (const char* between : {"//\n", "int a;\n", "/// x\n", "\n"})
    EXPECT_EQ(comments("// " + part + "\n// " + part + "\n" + between + "// " + part), kNone)
        << between;
  EXPECT_EQ(comments("int a;  // " + part + "\nint b;  // " + part + "\nint c;  // " + part),
            kNone);
}

TEST(Prose, OfCommentsLeavesOutCodeAndStrings) {
  const std::string longest = sentence(40);
  for (const std::string& text :
       {"const char* a = \"// " + longest + "\";", longest,
        "/// \\code\n/// " + longest + "\n/// \\endcode", "/// Text:\n///\n///     " + longest,
        "/// \\par " + longest, std::string("int a = 10'000'000;")})
    EXPECT_EQ(comments(text), kNone) << text;
  EXPECT_EQ(comments("int a = 10'000;  // " + longest).size(), 1u);
  EXPECT_EQ(comments("char a = '\"';  // " + longest).size(), 1u);
}

}  // namespace
}  // namespace tutti::repository
