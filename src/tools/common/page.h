#pragma once

// Text in two columns: short labels, and words beside them that are broken into lines.

#include <string>

namespace tutti::tools {

class Page {
 public:
  static constexpr size_t kColumns = 100;

  explicit Page(size_t labelColumns) : labelColumns_(labelColumns) {}
  size_t labelColumns() const { return labelColumns_; }
  /// The label, then the words, broken at spaces so that lines have at most kColumns characters.
  void line(const std::string& label, const std::string& words);
  /// The same in one line, however long: for what is to be copied.
  void unbroken(const std::string& label, const std::string& words) { raw(padded(label) + words); }
  /// As it is, but for spaces at the end.
  void raw(const std::string& words);
  /// Each line of a table as raw() has it.
  void rows(const std::string& lines);
  /// After an empty line.
  void heading(const std::string& words);
  std::string take() && { return std::move(text_); }

 private:
  std::string padded(const std::string& label) const;
  size_t labelColumns_;
  std::string text_;
};

}  // namespace tutti::tools
