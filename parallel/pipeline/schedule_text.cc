#include "parallel/pipeline/schedule_text.h"

#include <algorithm>
#include <numeric>

namespace tutti::parallel {

namespace {

constexpr size_t kColumns = 100;

std::string labelOf(const Schedule& s, const Action& a) {
  const std::string label = message(toString(a.kind), a.microBatch);
  return s.chunks > 1 ? message(label, '.', a.chunk) : label;
}

/// The length of time that divides all others.
int64_t unitOf(const Timeline& timeline) {
  int64_t unit = 0;
  for (const auto& spans : timeline.byRank)
    for (const Span& span : spans) unit = std::gcd(unit, std::gcd(span.begin, span.end));
  return std::max<int64_t>(unit, 1);
}

std::string padded(std::string text, size_t columns) {
  text.resize(std::max(columns, text.size()), ' ');
  return text;
}

/// A rank's units of time, each a cell.
std::vector<std::string> cellsOf(const Schedule& s, const Timeline& timeline, int rank,
                                 int64_t unit) {
  std::vector<std::string> cells(static_cast<size_t>(timeline.end() / unit), ".");
  for (const Span& span : timeline.byRank[static_cast<size_t>(rank)])
    for (int64_t t = span.begin / unit; t < span.end / unit; ++t)
      cells[static_cast<size_t>(t)] = t == span.begin / unit ? labelOf(s, span.action) : "-";
  return cells;
}

}  // namespace

std::string drawText(const Schedule& s, const Timeline& timeline) {
  const int64_t unit = unitOf(timeline);
  std::vector<std::vector<std::string>> ranks;
  size_t width = 0, name = 0;
  for (int rank = 0; rank < s.ranks; ++rank) {
    ranks.push_back(cellsOf(s, timeline, rank, unit));
    for (const std::string& cell : ranks.back()) width = std::max(width, cell.size() + 1);
    name = std::max(name, message("rank ", rank, "  ").size());
  }
  const size_t perLine = std::max<size_t>(1, (kColumns - name) / width), all = ranks[0].size();
  std::string text;
  for (size_t begin = 0; begin < all; begin += perLine) {
    if (begin > 0) text += "\n";
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::string line = padded(message("rank ", rank), name);
      for (size_t i = begin; i < std::min(all, begin + perLine); ++i)
        line += padded(ranks[rank][i], width);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

std::string actionsText(const Schedule& s) {
  std::string text;
  for (int rank = 0; rank < s.ranks; ++rank) {
    text += message("rank ", rank, ":");
    for (std::span<const Action> rest = s.byRank[static_cast<size_t>(rank)]; !rest.empty();) {
      const size_t together = groupSize(rest);
      text += message(together > 0 ? " [" : " ", rest[0]);
      for (size_t i = 1; i < together; ++i) text += message(", ", rest[i]);
      if (together > 0) text += "]";
      rest = rest.subspan(std::max<size_t>(together, 1));
    }
    text += "\n";
  }
  return text;
}

std::string shareText(const Fraction& share) {
  const int64_t thousandths = (2000 * share.over + share.under) / (2 * share.under);
  return message(share.over, share.under == 1 ? "" : message("/", share.under), " (",
                 thousandths / 10, ".", thousandths % 10, "%)");
}

std::string numberText(const Fraction& number) {
  const int64_t whole = number.over / number.under, rest = number.over % number.under;
  if (rest == 0) return message(whole);
  if (whole == 0) return message(rest, "/", number.under);
  return message(whole, " ", rest, "/", number.under);
}

}  // namespace tutti::parallel
