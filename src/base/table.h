#pragma once

// Tables as text: cells under each other in columns. What the programs print in columns is made
// here.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::base {

struct TableColumn {
  size_t width;       ///< at least; a longer cell moves those behind it
  size_t gap = 2;     ///< spaces before it
  bool left = false;  ///< where cells stand; else to the right
};

class TextTable {
 public:
  using Cells = std::vector<std::string>;

  /// For rows that are printed one after the other: columns of widths that are known before.
  explicit TextTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  /// As wide as the widest cell of each column. The first row has a cell for each. `sides` says
  /// where cells stand: a letter for each column, l or r; the last one is for those behind it, too.
  static std::string fitting(const std::vector<Cells>& rows, std::string_view sides = "l");
  /// The same as a table of Markdown, whose first row is the heading.
  static std::string markdown(const std::vector<Cells>& rows, std::string_view sides = "l");

  /// A line without spaces at its end. There may be fewer cells than columns.
  std::string row(const Cells& cells) const;
  /// The same with a '#' as its first character.
  std::string comment(const Cells& cells) const;

 private:
  std::vector<TableColumn> columns_;
};

/// With so many digits that matter: "1.25", "1.2e+06".
std::string significant(double value, int digits);
/// With so many digits behind the point: "12.50".
std::string fixed(double value, int digits);

}  // namespace tutti::base
