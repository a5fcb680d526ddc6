#include "parallel/samples/compare_strategies/strategy_tables.h"

#include <algorithm>
#include <cstdio>

namespace tutti::parallel {

namespace {

using Cells = std::vector<std::string>;

std::string numberText(const char* format, double number) {
  char text[32];
  std::snprintf(text, sizeof(text), format, number);
  return text;
}
std::string mebibytes(double bytes) { return numberText("%.2f", bytes / (1 << 20)); }
std::string mebibytes(size_t bytes) { return mebibytes(static_cast<double>(bytes)); }
std::string milliseconds(double seconds) { return numberText("%.1f", 1e3 * seconds); }
/// Nothing where a strategy has no such ranks.
std::string percent(double share) { return share > 0 ? numberText("%.0f", 100 * share) : ""; }

/// The first cell of a row begins at the left, the others end at the right.
std::string rowText(const Cells& cells, const std::vector<size_t>& widths, bool markdown) {
  std::string text = markdown ? "|" : "";
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths[i] - cells[i].size(), ' ');
    text += markdown ? message(" ", cells[i], " |")
            : i == 0 ? cells[i] + blanks
                     : message("  ", blanks, cells[i]);
  }
  return text + "\n";
}

/// The first row is the heading.
std::string tableText(const std::vector<Cells>& rows, bool markdown) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Cells& cells : rows)
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  std::string text = rowText(rows[0], widths, markdown);
  Cells alignment(widths.size(), "---:");
  alignment[0] = "---";
  if (markdown) text += rowText(alignment, std::vector<size_t>(widths.size(), 4), true);
  for (size_t i = 1; i < rows.size(); ++i) text += rowText(rows[i], widths, markdown);
  return text;
}

Cells memoryCells(const StrategyUse& use) {
  const StateBytes state = use.state();
  return {use.strategy,
          mebibytes(state.parameters),
          mebibytes(state.gradients),
          mebibytes(state.optimizer),
          mebibytes(state.total()),
          mebibytes(use.formula.total()),
          numberText("%.3f", state.total() / use.formula.total()),
          mebibytes(use.savedActivations()),
          mebibytes(use.buffers()),
          mebibytes(use.memory.total())};
}

Cells stepHeading(bool measured) {
  Cells cells{"strategy", "sent, MiB", "formula, MiB"};
  if (measured) {
    cells.insert(cells.end(), {"tokens/s", "step, ms", "idle, %"});
    for (const Awaited awaited : kAwaited) cells.push_back(message(toString(awaited), ", %"));
  }
  cells.emplace_back("predicted, ms");
  return cells;
}

Cells stepCells(const StrategyUse& use) {
  Cells cells{use.strategy, mebibytes(use.sent),
              use.sentFormula ? mebibytes(*use.sentFormula) : ""};
  if (use.measured) {
    cells.push_back(numberText("%.0f", use.measured->tokensPerSecond));
    cells.push_back(milliseconds(use.measured->seconds));
    cells.push_back(percent(use.measured->shares.total()));
    for (const Awaited awaited : kAwaited) cells.push_back(percent(use.measured->shares[awaited]));
  }
  cells.push_back(milliseconds(use.predictedSeconds));
  return cells;
}

}  // namespace

std::string memoryTable(const std::vector<StrategyUse>& uses, bool markdown) {
  std::vector<Cells> rows{{"strategy", "parameters, MiB", "gradients, MiB", "optimizer, MiB",
                           "state, MiB", "formula, MiB", "ratio", "saved activations, MiB",
                           "buffers, MiB", "total, MiB"}};
  for (const StrategyUse& use : uses) rows.push_back(memoryCells(use));
  return tableText(rows, markdown);
}

std::string stepTable(const std::vector<StrategyUse>& uses, bool markdown) {
  std::vector<Cells> rows{stepHeading(!uses.empty() && uses[0].measured.has_value())};
  for (const StrategyUse& use : uses) rows.push_back(stepCells(use));
  return tableText(rows, markdown);
}

}  // namespace tutti::parallel
