#include "tests/repository/prose.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <string_view>

namespace tutti::repository {
namespace {

/// Stands for inline code in a text: a letter that no page uses.
constexpr char kCode = '\x01';

bool isLetter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool isSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// One line of prose and its place in the file.
struct Line {
  size_t number;
  std::string text;
};

enum class Kind { Paragraph, Cell, Heading };

/// What the rules apply to. Its lines are adjacent lines of the file.
struct Block {
  Kind kind;
  size_t line;
  std::string text;  ///< lines joined by newlines
};

/// Cuts lines of Markdown into blocks.
class BlockReader {
 public:
  explicit BlockReader(std::vector<Line> lines) : lines_(std::move(lines)) {}

  std::vector<Block> run() {
    if (!lines_.empty() && lines_[0].text == "---") skipFrontMatter();
    for (; at_ < lines_.size(); ++at_) take(lines_[at_]);
    finish();
    return std::move(blocks_);
  }

 private:
  void skipFrontMatter() {
    for (++at_; at_ < lines_.size() && lines_[at_].text != "---";) ++at_;
    ++at_;
  }

  void take(const Line& line) {
    if (!inHtmlComment_ && isInFence(trimmed(line.text))) return;
    const std::string text = withoutHtmlComments(line.text);
    if (isIndentedCode(text)) return;
    takeMarkup({line.number, withoutQuoteMarks(trimmed(text))});
    afterBlank_ = trimmed(text).empty();
  }

  void takeMarkup(Line line) {
    static const std::regex underline("=+|-{2,}"), rule("([-*_] *){3,}");
    static const std::regex item("([-*+]|\\d{1,3}[.)]|:) +(\\[[ xX]\\] +)?"), heading("#{1,6} +");
    static const std::regex directive(":::.*|\\[[^\\]]+\\]: +\\S.*|(!!!|\\?\\?\\?\\+?|===) .*");
    static const std::regex title("[\\\\@](file|par|name|defgroup)\\b *");
    static const std::regex command(
        "[\\\\@]((param|tparam|throws?|exception)(\\[[a-z,]+\\])? +\\S+"
        "|brief|details|returns?|retval|note|warning|see|sa|pre|post|remark)\\b *");
    std::smatch found;
    const std::string& text = line.text;
    const auto starts = [&](const std::regex& what) {
      return std::regex_search(text, found, what, std::regex_constants::match_continuous);
    };
    if (text.empty() || std::regex_match(text, directive)) return finish();
    if (open_.kind == Kind::Paragraph && !open_.text.empty() && std::regex_match(text, underline)) {
      open_.kind = Kind::Heading;
      return finish();
    }
    if (std::regex_match(text, rule)) return finish();
    if (text[0] == '|') return takeRow(line);
    if (starts(heading) || starts(title)) {
      begin(Kind::Heading, {line.number, found.suffix()});
      return finish();
    }
    if (starts(item)) {
      inContainer_ = true;
      return begin(Kind::Paragraph, {line.number, found.suffix()});
    }
    if (starts(command)) return begin(Kind::Paragraph, {line.number, found.suffix()});
    if (open_.text.empty()) return begin(Kind::Paragraph, line);
    open_.text += "\n" + text;
  }

  void begin(Kind kind, const Line& line) {
    finish();
    open_ = {kind, line.number, line.text};
  }
  void finish() {
    if (!open_.text.empty()) blocks_.push_back(open_);
    open_ = {Kind::Paragraph, 0, ""};
  }

  void takeRow(const Line& line) {
    static const std::regex delimiter("[-:| ]+");
    finish();
    if (std::regex_match(line.text, delimiter)) return;
    std::string cell;
    bool inCode = false;
    for (size_t i = 1; i < line.text.size(); ++i) {
      const char c = line.text[i];
      if (c == '`') inCode = !inCode;
      if (c == '\\' && i + 1 < line.text.size() && line.text[i + 1] == '|') continue;
      if (c != '|' || inCode || line.text[i - 1] == '\\') {
        cell += c;
        continue;
      }
      blocks_.push_back({Kind::Cell, line.number, cell});
      cell.clear();
    }
    if (!trimmed(cell).empty()) blocks_.push_back({Kind::Cell, line.number, cell});
  }

  /// A fenced block, or what a Doxygen command encloses.
  bool isInFence(const std::string& text) {
    static const std::regex opening("(`{3,}|~{3,})[^`]*|[\\\\@](code|verbatim|dot)\\b.*");
    if (!fence_.empty()) {
      if (text.starts_with(fence_)) fence_.clear();
      return true;
    }
    if (!std::regex_match(text, opening)) return false;
    finish();
    afterBlank_ = true;
    const char mark = text[0];
    if (mark == '`' || mark == '~')
      fence_ = text.substr(0, text.find_first_not_of(mark));
    else
      fence_ = mark + ("end" + text.substr(1, text.find_first_of("{ ", 1) - 1));
    return true;
  }

  /// Four spaces after a blank line are code, except in a list or an admonition.
  bool isIndentedCode(const std::string& text) {
    if (trimmed(text).empty()) return false;
    const bool indented = text.starts_with("    ");
    if (text.starts_with("!!!") || text.starts_with("???") || text.starts_with("==="))
      inContainer_ = true;
    else if (!isSpace(text[0]) && afterBlank_)
      inContainer_ = false;
    return indented && !inContainer_ && open_.text.empty();
  }

  std::string withoutHtmlComments(const std::string& text) {
    std::string kept;
    for (size_t i = 0; i < text.size();) {
      const std::string mark = inHtmlComment_ ? "-->" : "<!--";
      const size_t found = text.find(mark, i);
      if (!inHtmlComment_) kept += text.substr(i, found == std::string::npos ? found : found - i);
      if (found == std::string::npos) break;
      inHtmlComment_ = !inHtmlComment_;
      i = found + mark.size();
    }
    return kept;
  }

  static std::string withoutQuoteMarks(std::string text) {
    while (text.starts_with(">")) text = trimmed(text.substr(1));
    return text;
  }

  std::vector<Line> lines_;
  size_t at_ = 0;
  std::vector<Block> blocks_;
  Block open_{Kind::Paragraph, 0, ""};
  std::string fence_;  ///< what ends the code block that the reader is in
  bool inHtmlComment_ = false, inContainer_ = false, afterBlank_ = true;
};

/// Puts one letter in the place of inline code. Its newlines come before it.
std::string withoutCode(const std::string& text) {
  std::string kept;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '`') {
      kept += text[i++];
      continue;
    }
    const size_t inner = std::min(text.find_first_not_of('`', i), text.size());
    const std::string mark = text.substr(i, inner - i);
    const size_t end = text.find(mark, inner);
    if (end == std::string::npos) return kept + text.substr(inner);
    const auto code = std::string_view(text).substr(inner, end - inner);
    kept.append(static_cast<size_t>(std::count(code.begin(), code.end(), '\n')), '\n');
    kept += kCode;
    i = end + mark.size();
  }
  return kept;
}

/// The words of a block as a reader sees them.
std::string rendered(const std::string& text) {
  static const std::regex image("!\\[[^\\]]*\\](\\([^)]*\\)|\\[[^\\]]*\\])"),
      footnote("\\[\\^[^\\]]*\\]");
  static const std::regex link("\\[([^\\]]*)\\](\\([^)]*\\)|\\[[^\\]]*\\])"),
      address("<?https?://[^ >)]*>?");
  static const std::regex tag("</?[a-z][a-z0-9]*( [^>]*)?/?>"), attribute("\\{[:#.][^}]*\\}");
  std::string s = withoutCode(text);
  s = std::regex_replace(s, image, "");
  s = std::regex_replace(s, footnote, "");
  s = std::regex_replace(s, link, "$1");
  s = std::regex_replace(s, address, std::string(1, kCode));
  s = std::regex_replace(s, tag, " ");
  s = std::regex_replace(s, attribute, "");
  std::erase_if(s, [](char c) { return c == '*'; });
  return s;
}

struct Word {
  std::string text;
  size_t line;
};

/// Whatever stands between spaces and has a letter or a digit.
std::vector<Word> wordsOf(const std::string& text, size_t line) {
  std::vector<Word> words;
  std::string word;
  const auto finish = [&] {
    const bool counts =
        std::any_of(word.begin(), word.end(), [](char c) { return isLetter(c) || c == kCode; });
    if (counts)
      words.push_back({word, line});
    else if (!words.empty())
      words.back().text += word;  // the sign may end a sentence
    word.clear();
  };
  for (const char c : text) {
    if (!isSpace(c)) {
      word += c;
      continue;
    }
    finish();
    line += c == '\n' ? 1 : 0;
  }
  finish();
  return words;
}

/// True where a sentence ends with `word`. Abbreviations and the points of a list that goes on
/// ("a, b, ...") end none, unless the next word begins like a sentence.
bool endsSentence(const std::string& word, const Word* next) {
  static constexpr std::array<std::string_view, 8> kNever{"e.g.", "i.e.", "vs.",   "cf.",
                                                          "fig.", "eq.",  "resp.", "approx."};
  static constexpr std::array<std::string_view, 2> kSometimes{"etc.", "..."};
  std::string bare = word;
  while (!bare.empty() && std::string_view(")]\"'_").find(bare.back()) != std::string::npos)
    bare.pop_back();
  while (!bare.empty() && std::string_view("([\"'_").find(bare.front()) != std::string::npos)
    bare.erase(0, 1);
  if (bare.empty() || std::string_view(".!?").find(bare.back()) == std::string::npos) return false;
  std::transform(bare.begin(), bare.end(), bare.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  if (std::find(kNever.begin(), kNever.end(), bare) != kNever.end()) return false;
  const bool capital = next && std::isupper(static_cast<unsigned char>(next->text[0])) != 0;
  for (const std::string_view ending : kSometimes)
    if (bare.ends_with(ending)) return capital;
  return true;
}

/// Applies the rules to the blocks of one file.
class Checker {
 public:
  Checker(const std::string& path, const std::vector<ForbiddenWord>& forbidden, Exempt exempt)
      : path_(path), forbidden_(forbidden), exempt_(exempt) {}

  std::vector<std::string> run(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) check(block);
    return std::move(findings_);
  }

 private:
  void check(const Block& block) {
    const std::string text = rendered(block.text);
    const std::vector<Word> words = wordsOf(text, block.line);
    if (words.empty()) return;
    const bool exempt =
        exempt_ == Exempt::Everything || (exempt_ == Exempt::Cells && block.kind == Kind::Cell);
    if (!exempt) checkWords(text, block.line);
    if (block.kind == Kind::Cell && words.size() > kLongestCell)
      report("cell", words, kLongestCell);
    if (block.kind != Kind::Paragraph) return;
    if (words.size() > kLongestParagraph) report("paragraph", words, kLongestParagraph);
    checkSentences(words);
  }

  void checkSentences(const std::vector<Word>& words) {
    std::vector<Word> sentence;
    for (size_t i = 0; i < words.size(); ++i) {
      const Word* next = i + 1 < words.size() ? &words[i + 1] : nullptr;
      sentence.push_back(words[i]);
      if (next && !endsSentence(words[i].text, next)) continue;
      if (sentence.size() > kLongestSentence) report("sentence", sentence, kLongestSentence);
      sentence.clear();
    }
  }

  /// `text` may spread a phrase over two lines.
  void checkWords(const std::string& text, size_t line) {
    std::string lower;
    std::vector<size_t> lines;
    for (const char c : text) {
      if (!isSpace(c) || (!lower.empty() && lower.back() != ' ')) {
        lower += isSpace(c) ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        lines.push_back(line);
      }
      line += c == '\n' ? 1 : 0;
    }
    const auto inWord = [&](size_t at) {
      return at < lower.size() && (isLetter(lower[at]) || lower[at] == '_');
    };
    for (const ForbiddenWord& word : forbidden_)
      for (size_t at = 0; (at = lower.find(word.word, at)) != std::string::npos; ++at)
        if (!inWord(at - 1) && !inWord(at + word.word.size()))
          findings_.push_back(place(lines[at]) + "\"" + word.word + "\": the glossary says \"" +
                              word.replacement + "\"");
  }

  void report(const std::string& what, const std::vector<Word>& words, size_t limit) {
    std::string beginning;
    for (size_t i = 0; i < words.size() && i < 6; ++i) beginning += " " + words[i].text;
    beginning = std::regex_replace(beginning, std::regex(std::string(1, kCode)), "`...`");
    findings_.push_back(place(words[0].line) + what + " of " + std::to_string(words.size()) +
                        " words, at most " + std::to_string(limit) + ":" + beginning + " ...");
  }
  std::string place(size_t line) const { return path_ + ":" + std::to_string(line) + ": "; }

  const std::string& path_;
  const std::vector<ForbiddenWord>& forbidden_;
  Exempt exempt_;
  std::vector<std::string> findings_;
};

/// Finds the comments of C and C++ source, as runs of lines that belong together.
class CommentReader {
 public:
  explicit CommentReader(const SourceFile& file) : file_(file) {}

  std::vector<std::vector<Line>> run() {
    for (size_t i = 0; i < file_.lines.size(); ++i) take(i + 1, file_.lines[i]);
    finish();
    return std::move(runs_);
  }

 private:
  void take(size_t number, const std::string& line) {
    if (inBlock_) return takeBlockLine(number, line);
    const size_t at = commentOf(line);
    if (at == std::string::npos) return finish();
    const bool alone = trimmed(line.substr(0, at)).empty();
    if (line[at + 1] == '*') {
      finish();
      inBlock_ = true;
      return takeBlockLine(number, line.substr(at + 2));
    }
    const size_t text = line.find_first_not_of("/!<", at + 2);
    const std::string mark = line.substr(at, text == std::string::npos ? text : text - at);
    // A line of its own continues the comment above it, if that looks the same.
    if (!alone || mark != mark_ || at != column_) finish();
    mark_ = mark;
    column_ = at;
    add(number, text == std::string::npos ? "" : line.substr(text));
  }

  void takeBlockLine(size_t number, std::string line) {
    const size_t end = line.find("*/");
    if (end != std::string::npos) line.erase(end);
    if (const size_t star = line.find_first_not_of(" \t");
        star != std::string::npos && line[star] == '*')
      line.erase(0, line.find_first_not_of('*', star));
    add(number, line);
    if (end == std::string::npos) return;
    finish();
    inBlock_ = false;
  }

  /// Where the comment of a line begins, outside strings and character literals.
  static size_t commentOf(const std::string& line) {
    char quote = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quote) {
        if (c == '\\') ++i;
        if (c == quote) quote = 0;
      } else if (c == '"' || (c == '\'' && (i == 0 || !isLetter(line[i - 1])))) {
        quote = c;
      } else if (c == '/' && i + 1 < line.size() && (line[i + 1] == '/' || line[i + 1] == '*')) {
        return i;
      }
    }
    return std::string::npos;
  }

  void add(size_t number, const std::string& text) {
    run_.push_back({number, text.starts_with(" ") ? text.substr(1) : text});
  }
  void finish() {
    if (!run_.empty()) runs_.push_back(std::move(run_));
    run_.clear();
    mark_.clear();
  }

  const SourceFile& file_;
  std::vector<std::vector<Line>> runs_;
  std::vector<Line> run_;
  std::string mark_;  ///< "//", "///" or "///<", of the run
  size_t column_ = 0;
  bool inBlock_ = false;
};

std::vector<Line> linesOf(const SourceFile& page) {
  std::vector<Line> lines;
  for (size_t i = 0; i < page.lines.size(); ++i) lines.push_back({i + 1, page.lines[i]});
  return lines;
}

}  // namespace

std::vector<ForbiddenWord> forbiddenWords(const SourceFile& glossary) {
  std::vector<std::vector<std::string>> rows;  // of the last table
  size_t last = 0;
  for (const Block& block : BlockReader(linesOf(glossary)).run()) {
    if (block.kind != Kind::Cell) continue;
    // The delimiter row of a table has no block; its header is followed by a gap of two lines.
    if (block.line > last + 2) rows.clear();
    if (block.line != last) rows.emplace_back();
    rows.back().push_back(trimmed(block.text));
    last = block.line;
  }
  std::vector<ForbiddenWord> words;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() != 2) continue;
    std::string phrase;
    for (const char c : rows[i][0] + ",") {
      if (c != ',') {
        phrase += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        continue;
      }
      if (!trimmed(phrase).empty()) words.push_back({trimmed(phrase), rows[i][1]});
      phrase.clear();
    }
  }
  return words;
}

std::vector<std::string> checkPage(const SourceFile& page, const std::vector<ForbiddenWord>& words,
                                   Exempt exempt) {
  return Checker(page.path, words, exempt).run(BlockReader(linesOf(page)).run());
}

std::vector<std::string> checkComments(const SourceFile& source,
                                       const std::vector<ForbiddenWord>& words) {
  std::vector<Block> blocks;
  for (const std::vector<Line>& run : CommentReader(source).run())
    for (const Block& block : BlockReader(run).run()) blocks.push_back(block);
  return Checker(source.path, words, Exempt::Nothing).run(blocks);
}

}  // namespace tutti::repository
