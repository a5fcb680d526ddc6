#include "parallel/samples/compare_strategies/strategy_tables.h"

#include "src/base/table.h"

namespace tutti::parallel {

namespace {

using base::fixed;
using base::TextTable;
using Cells = TextTable::Cells;

std::string mebibytes(double bytes) { return fixed(bytes / (1 << 20), 2); }
std::string mebibytes(size_t bytes) { return mebibytes(static_cast<double>(bytes)); }
std::string milliseconds(double seconds) { return fixed(1e3 * seconds, 1); }
/// Nothing where a strategy has no such ranks.
std::string percent(double share) { return share > 0 ? fixed(100 * share, 0) : ""; }

/// The first row is the heading. What is counted stands to the right.
std::string tableText(const std::vector<Cells>& rows, bool markdown) {
  return markdown ? TextTable::markdown(rows, "lr") : TextTable::fitting(rows, "lr");
}

Cells memoryCells(const StrategyUse& use) {
  const StateBytes state = use.state();
  return {use.strategy,
          mebibytes(state.parameters),
          mebibytes(state.gradients),
          mebibytes(state.optimizer),
          mebibytes(state.total()),
          mebibytes(use.formula.total()),
          fixed(state.total() / use.formula.total(), 3),
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
    cells.push_back(fixed(use.measured->tokensPerSecond, 0));
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
