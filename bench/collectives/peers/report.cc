#include "bench/collectives/peers/report.h"

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/units.h"

namespace tutti::bench {

using base::message;

namespace {

/// Three digits that matter, in microseconds.
std::string usText(double us) { return base::fixed(us, us < 9.995 ? 2 : us < 99.95 ? 1 : 0); }

std::string intervalText(const Interval& i) {
  return message(base::fixed(i.median, 2), " [", base::fixed(i.low, 2), ", ",
                 base::fixed(i.high, 2), "]");
}

std::string caseText(const Case& what) {
  const std::string text = message(what.name(), ", ", what.ranks, " ranks");
  return what.collective == WORKER_BARRIER ? text : text + ", " + tools::bytesText(what.bytes);
}

/// "2,097,152"
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string cell(const Row& row, const std::string& contender) {
  const Series* const s = row.find(contender);
  if (!s) return "";
  return s->us.empty() ? "none" : usText(medianUs(*s));
}

std::string predictedText(const Row& row, const std::string& memory) {
  const Series* const s = row.find(memory);
  return s && s->predictedUs ? usText(*s->predictedUs) : "";
}

std::string bestText(const Row& row, const std::string& memory) {
  const Series* const best = row.bestPeer(memory);
  return best ? message(intervalText(*row.ratio(*best, memory)), " ", best->contender) : "";
}

using Rows = std::vector<const Row*>;

/// The contenders that take part in one of the rows, in their order.
std::vector<std::pair<std::string, std::string>> columns(const Rows& rows,
                                                         const std::vector<Contender>& all) {
  std::vector<std::pair<std::string, std::string>> found{{"allocate", "Tutti, allocate"},
                                                         {"ordinary", "Tutti, ordinary"}};
  for (const Contender& c : all) found.emplace_back(c.name, c.title);
  std::erase_if(found, [&](const auto& column) {
    return std::ranges::none_of(rows,
                                [&](const Row* r) { return r->find(column.first) != nullptr; });
  });
  return found;
}

std::string table(const Rows& rows, const std::vector<Contender>& all) {
  const auto shown = columns(rows, all);
  const auto isOurs = [](const auto& column) {
    return column.first == "allocate" || column.first == "ordinary";
  };
  const bool hasLimit =
      std::ranges::any_of(rows, [](const Row* r) { return r->limitUs.has_value(); });
  std::vector<base::TextTable::Cells> cells{{"Bytes", "Flag, ns"}};
  if (hasLimit) cells[0].push_back("Limit, us");
  for (const auto& column : shown) {
    cells[0].push_back(column.second);
    if (isOurs(column)) cells[0].push_back("Predicted");
  }
  for (const auto& column : shown)
    if (isOurs(column)) cells[0].push_back("Best peer / " + column.second);
  for (const Row* row : rows) {
    base::TextTable::Cells line{grouped(row->what.bytes), base::fixed(row->flagNs, 0)};
    if (hasLimit) line.push_back(row->limitUs ? usText(*row->limitUs) : "");
    for (const auto& column : shown) {
      line.push_back(cell(*row, column.first));
      if (isOurs(column)) line.push_back(predictedText(*row, column.first));
    }
    for (const auto& column : shown)
      if (isOurs(column)) line.push_back(bestText(*row, column.first));
    cells.push_back(line);
  }
  return base::TextTable::markdown(cells, "r");
}

}  // namespace

std::string tables(const Contest& contest, const std::vector<Contender>& contenders) {
  const Settings& s = contest.settings;
  std::string text = message("float32, ", contest.date, ", Tutti ", s.version,
                             s.commit.empty() ? "" : ", commit " + s.commit, "; ", s.machine,
                             ". Microseconds: medians of up to ", s.blocks,
                             " blocks. Best peer: its time over Tutti's, with the 95% interval.\n");
  for (const auto& [name, version] : contest.versions)
    if (name != "tutti") text += message("- ", name, ": ", version, "\n");
  for (const auto& [name, why] : contest.absent)
    text += message("- ", name, " is not measured: ", why, "\n");
  std::set<std::pair<int, worker_collective>> seen;
  for (const Row& first : contest.rows) {
    if (!seen.insert({first.what.ranks, first.what.collective}).second) continue;
    Rows rows;
    for (const Row& row : contest.rows)
      if (row.what.ranks == first.what.ranks && row.what.collective == first.what.collective)
        rows.push_back(&row);
    std::ranges::stable_sort(rows, {}, [](const Row* r) { return r->what.bytes; });
    text += message("\n### ", first.what.name(), ", ", first.what.ranks, " ranks\n\n",
                    table(rows, contenders));
  }
  return text;
}

std::string slowerThanAPeer(const Contest& contest) {
  std::string text;
  for (const Row& row : contest.rows)
    for (const char* memory : {"allocate", "ordinary"}) {
      const Series* least = nullptr;
      for (const Series& peer : row.series) {
        const auto r = isTutti(peer) ? std::nullopt : row.ratio(peer, memory);
        if (!r || r->high >= 1) continue;
        if (!least || r->median < row.ratio(*least, memory)->median) least = &peer;
      }
      if (!least) continue;
      text +=
          message("- ", caseText(row.what), ", ", memory, ": ", usText(medianUs(*row.find(memory))),
                  " us, ", least->contender, " ", usText(medianUs(*least)),
                  " us: ", intervalText(*row.ratio(*least, memory)), "\n");
    }
  return text;
}

std::string withoutResult(const Contest& contest) {
  std::string text;
  for (const Row& row : contest.rows)
    for (const Series& s : row.series)
      if (!s.error.empty())
        text += message("- ", caseText(row.what), ", ", s.contender, ": ", s.error, "\n");
  return text;
}

}  // namespace tutti::bench
