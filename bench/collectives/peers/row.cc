#include "bench/collectives/peers/row.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/strict_json.h"
#include "src/tools/common/read_json.h"

namespace tutti::bench {

using tools::arrayOf;
using tools::Json;
using Entries = std::vector<std::pair<std::string, std::string>>;

const std::vector<std::string>& collectiveNames() {
  static const std::vector<std::string> names{"all_reduce", "all_gather", "reduce_scatter",
                                              "broadcast",  "reduce",     "all_to_all",
                                              "send_recv",  "barrier"};
  return names;
}

uint64_t Case::bufferBytes() const {
  const bool oneIsABlock = collective == WORKER_ALL_GATHER || collective == WORKER_REDUCE_SCATTER;
  return bytes + (oneIsABlock ? bytes / static_cast<uint64_t>(ranks) : bytes);
}

bool isTutti(const Series& s) { return s.contender == "allocate" || s.contender == "ordinary"; }

double medianUs(const Series& series) { return medianInterval(series.us).median; }

const Series* Row::find(const std::string& contender) const {
  const auto found = std::ranges::find(series, contender, &Series::contender);
  return found == series.end() ? nullptr : &*found;
}

std::optional<Interval> Row::ratio(const Series& peer, const std::string& memory) const {
  const Series* const ours = find(memory);
  if (!ours || ours->us.size() < peer.firstPair) return {};
  const size_t pairs = std::min(peer.us.size(), ours->us.size() - peer.firstPair);
  if (pairs == 0) return {};
  std::vector<double> ratios;
  for (size_t block = 0; block < pairs; ++block)
    ratios.push_back(peer.us[block] / ours->us[peer.firstPair + block]);
  return medianInterval(ratios);
}

const Series* Row::bestPeer(const std::string& memory) const {
  const Series* best = nullptr;
  double least = 0;
  for (const Series& peer : series) {
    if (isTutti(peer)) continue;
    const auto r = ratio(peer, memory);
    if (!r || (best && r->median >= least)) continue;
    best = &peer;
    least = r->median;
  }
  return best;
}

const Row* Contest::find(const Case& what) const {
  const auto found = std::ranges::find(rows, what, &Row::what);
  return found == rows.end() ? nullptr : &*found;
}

void setEntry(Entries& entries, const std::string& name, const std::string& words) {
  const auto found = std::ranges::find(entries, name, &Entries::value_type::first);
  if (found == entries.end())
    entries.emplace_back(name, words);
  else
    found->second = words;
}

namespace {

Json seriesJson(const Row& row, const Series& s) {
  if (!s.error.empty()) return {{"contender", s.contender}, {"error", s.error}};
  Json one{{"contender", s.contender},
           {"median_us", medianUs(s)},
           {"blocks_us", s.us},
           {"first_pair", s.firstPair}};
  if (s.predictedUs) one["predicted_us"] = *s.predictedUs;
  if (isTutti(s)) return one;
  for (const char* memory : {"allocate", "ordinary"})
    if (const auto r = row.ratio(s, memory))
      one["ratio"][memory] = {{"low", r->low}, {"median", r->median}, {"high", r->high}};
  return one;
}

Json rowJson(const Row& row) {
  return {{"collective", row.what.name()},
          {"ranks", row.what.ranks},
          {"bytes", row.what.bytes},
          {"flag_ns", row.flagNs},
          {"limit_us", row.limitUs ? Json(*row.limitUs) : Json(nullptr)},
          {"contenders", arrayOf(row.series, [&](const Series& s) { return seriesJson(row, s); })}};
}

using Parsed = nlohmann::json;
using tools::numberIn;
using tools::numberOf;

constexpr double kLongestUs = 1e12;
constexpr size_t kMostBlocks = 1'000'000;

const Parsed& memberOf(const Parsed& object, const char* name,
                       bool (Parsed::*is)() const noexcept) {
  const auto found = object.find(name);
  if (found == object.end() || !((*found).*is)())
    throw std::runtime_error(base::message(name, " is missing, or of another kind"));
  return *found;
}

std::string textOf(const Parsed& object, const char* name) {
  return memberOf(object, name, &Parsed::is_string).get<std::string>();
}

Series seriesOf(const Parsed& object) {
  Series s{.contender = textOf(object, "contender")};
  if (object.contains("error")) {
    s.error = textOf(object, "error");
    return s;
  }
  for (const Parsed& us : memberOf(object, "blocks_us", &Parsed::is_array))
    s.us.push_back(numberIn<double>(us, "blocks_us", 0, kLongestUs));
  if (s.us.empty()) throw std::runtime_error("blocks_us is empty");
  s.firstPair = numberOf<size_t>(object, "first_pair", 0, kMostBlocks);
  if (object.contains("predicted_us"))
    s.predictedUs = numberOf<double>(object, "predicted_us", 0, kLongestUs);
  return s;
}

Row rowOf(const Parsed& object) {
  const auto name = std::ranges::find(collectiveNames(), textOf(object, "collective"));
  if (name == collectiveNames().end()) throw std::runtime_error("there is no such collective");
  Row row{.what = {.collective = static_cast<worker_collective>(name - collectiveNames().begin()),
                   .ranks = numberOf<int>(object, "ranks", 2, 1024),
                   .bytes = numberOf<uint64_t>(object, "bytes", 0, uint64_t{1} << 40)},
          .flagNs = numberOf<double>(object, "flag_ns", 0, kLongestUs)};
  if (object.contains("limit_us") && !object["limit_us"].is_null())
    row.limitUs = numberOf<double>(object, "limit_us", 0, kLongestUs);
  for (const Parsed& s : memberOf(object, "contenders", &Parsed::is_array))
    row.series.push_back(seriesOf(s));
  return row;
}

Json entriesJson(const Entries& entries) {
  Json object = Json::object();
  for (const auto& [name, words] : entries) object[name] = words;
  return object;
}

Entries entriesOf(const Parsed& object, const char* name) {
  Entries entries;
  for (const auto& [key, words] : memberOf(object, name, &Parsed::is_object).items()) {
    if (!words.is_string()) throw std::runtime_error(base::message("in ", name, " is no text"));
    setEntry(entries, key, words.get<std::string>());
  }
  return entries;
}

std::vector<std::string> namesIn(const Parsed& object, const char* member) {
  std::vector<std::string> names;
  for (const Parsed& word : memberOf(object, member, &Parsed::is_array)) {
    if (!word.is_string()) throw std::runtime_error(base::message(member, " is no list of names"));
    names.push_back(word.get<std::string>());
  }
  return names;
}

Settings settingsOf(const Parsed& object) {
  Settings s{.version = textOf(object, "version"),
             .commit = textOf(object, "commit"),
             .machine = textOf(object, "machine"),
             .blocks = numberOf<int>(object, "blocks", 1, 1000),
             .calls = numberOf<uint32_t>(object, "calls", 1, 1'000'000)};
  s.memory = namesIn(object, "memory");
  s.peers = namesIn(object, "peers");
  return s;
}

}  // namespace

Json json(const Contest& contest) {
  const Settings& s = contest.settings;
  return {{"date", contest.date},
          {"settings",
           {{"version", s.version},
            {"commit", s.commit},
            {"machine", s.machine},
            {"blocks", s.blocks},
            {"calls", s.calls},
            {"memory", s.memory},
            {"peers", s.peers}}},
          {"clock_ns", contest.clockNs},
          {"versions", entriesJson(contest.versions)},
          {"absent", entriesJson(contest.absent)},
          {"rows", arrayOf(contest.rows, rowJson)}};
}

Contest contestOf(const std::string& file, const std::string& text) {
  const Parsed parsed = base::parseStrictly(file, text);
  try {
    if (!parsed.is_object()) throw std::runtime_error("it is no object");
    Contest contest{.settings = settingsOf(memberOf(parsed, "settings", &Parsed::is_object)),
                    .date = textOf(parsed, "date"),
                    .clockNs = numberOf<double>(parsed, "clock_ns", 0, kLongestUs),
                    .versions = entriesOf(parsed, "versions"),
                    .absent = entriesOf(parsed, "absent")};
    for (const Parsed& row : memberOf(parsed, "rows", &Parsed::is_array))
      contest.rows.push_back(rowOf(row));
    return contest;
  } catch (const std::runtime_error& e) {
    base::fail(ErrorCode::InvalidArgument, file, " is no result of this program: ", e.what());
  }
}

}  // namespace tutti::bench
