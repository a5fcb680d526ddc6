#include "src/base/table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "src/base/check.h"

namespace tutti::base {

namespace {

bool standsLeft(std::string_view sides, size_t column) {
  return sides[std::min(column, sides.size() - 1)] == 'l';
}

}  // namespace

std::string TextTable::row(const Cells& cells) const {
  TUTTI_ASSERT(cells.size() <= columns_.size(), cells.size(), " cells in ", columns_.size(),
               " columns");
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const TableColumn& column = columns_[i];
    const std::string fill(column.width - std::min(column.width, cells[i].size()), ' ');
    line.append(column.gap, ' ').append(column.left ? cells[i] + fill : fill + cells[i]);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string TextTable::comment(const Cells& cells) const {
  std::string line = row(cells);
  line[0] = '#';
  return line;
}

std::string TextTable::fitting(const std::vector<Cells>& rows, std::string_view sides) {
  std::vector<TableColumn> columns;
  for (size_t i = 0; i < rows.at(0).size(); ++i)
    columns.push_back({.width = 0, .gap = i == 0 ? 0u : 2u, .left = standsLeft(sides, i)});
  for (const Cells& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      columns[i].width = std::max(columns[i].width, row[i].size());
  const TextTable table(std::move(columns));
  std::string text;
  for (const Cells& row : rows) text += table.row(row);
  return text;
}

std::string TextTable::markdown(const std::vector<Cells>& rows, std::string_view sides) {
  std::string text, alignment = "|";
  for (size_t i = 0; i < rows.at(0).size(); ++i)
    alignment += standsLeft(sides, i) ? " --- |" : " ---: |";
  for (const Cells& row : rows) {
    text += "|";
    for (const std::string& cell : row) text += " " + cell + " |";
    text += "\n";
    if (&row == &rows.front()) text += alignment + "\n";
  }
  return text;
}

std::string significant(double value, int digits) {
  std::ostringstream out;
  out << std::setprecision(digits) << value;
  return std::move(out).str();
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return std::move(out).str();
}

}  // namespace tutti::base
