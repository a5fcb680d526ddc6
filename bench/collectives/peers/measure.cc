#include "bench/collectives/peers/measure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "bench/collectives/peers/limits.h"
#include "src/base/check.h"
#include "src/tools/common/units.h"

namespace tutti::bench {
namespace {

constexpr uint64_t kLong = 1 << 20;         // bytes from which few calls are a probe
constexpr uint32_t kProbe = 3, kWarm = 10;  // calls; the second until a library has adapted

constexpr const char* kTooSlow = "too slow for the time of the row: ";

std::string tooSlow(const std::string& why) { return kTooSlow + why; }

/// Seconds after which a turn has no answer; it should take a small part of its row's.
int patienceOf(const Budget& budget) {
  return static_cast<int>(std::clamp(budget.seconds, 10.0, 60.0));
}

worker_command commandOf(const Case& what, uint32_t ordinary, uint32_t calls, uint32_t warmups) {
  return {.bytes = what.bytes,
          .iterations = calls,
          .warmups = warmups,
          .collective = static_cast<uint32_t>(what.collective),
          .ordinary = ordinary};
}

Series& seriesOf(Row& row, const std::string& name) {
  for (Series& s : row.series)
    if (s.contender == name) return s;
  row.series.push_back({.contender = name});
  return row.series.back();
}

}  // namespace

Measurement::Measurement(std::vector<Contender> contenders, std::vector<std::string> memory,
                         uint64_t freeBytes, Jobs& jobs, Contest& contest)
    : contenders_(std::move(contenders)),
      memory_(std::move(memory)),
      freeBytes_(freeBytes),
      jobs_(jobs),
      contest_(contest) {}

bool Measurement::isAbsent(const Contender& contender) const {
  return std::ranges::find(contest_.absent, contender.name,
                           &std::pair<std::string, std::string>::first) != contest_.absent.end();
}

// Temporaries are counted as a quarter of the buffers.
std::vector<Measurement::Group> Measurement::groups(const Case& what) const {
  const uint64_t one = static_cast<uint64_t>(what.ranks) * what.bufferBytes() / 4 * 5;
  const uint64_t ours = memory_.size() * one;
  const uint64_t least = ours + (contenders_.size() > 1 ? one : 0);
  if (least > freeBytes_)
    throw std::runtime_error("it needs " + tools::bytesText(least) + " of memory, of which " +
                             tools::bytesText(freeBytes_) + " are for it");
  const size_t peers = one == 0 ? contenders_.size() : (freeBytes_ - ours) / one;
  std::vector<Group> all;
  for (const Contender& peer : contenders_) {
    if (&peer == &contenders_.front() || !peer.has(what.collective) || isAbsent(peer) ||
        tooSlowAt(what, peer))
      continue;
    if (all.empty() || all.back().size() > peers) all.push_back({&contenders_.front()});
    all.back().push_back(&peer);
  }
  if (all.empty()) all.push_back({&contenders_.front()});
  return all;
}

bool Measurement::starts(const Contender& contender) {
  try {
    jobs_.of(contender);
    setEntry(contest_.versions, contender.name, jobs_.version(contender));
    return true;
  } catch (const std::exception& e) {
    if (&contender == &contenders_.front())
      throw std::runtime_error(std::string("Tutti's job does not start: ") + e.what());
    std::fprintf(stderr, "peers: %s is not measured: %s\n", contender.name.c_str(), e.what());
    setEntry(contest_.absent, contender.name, e.what());
    return false;
  }
}

std::vector<Measurement::Entrant> Measurement::entrants(const Case& what, const Group& group) {
  std::vector<Entrant> all;
  for (const Contender* who : group) {
    if (!starts(*who)) continue;
    if (who != &contenders_.front()) {
      all.push_back({who, who->name, 1});
      continue;
    }
    for (const std::string& memory : memory_) {
      all.push_back({who, memory, memory == "ordinary"});
      if (what.collective == WORKER_BARRIER) break;
    }
  }
  return all;
}

void Measurement::guarded(Row& row, const Entrant& entrant,
                          const std::function<void(Series&)>& run) {
  Series& series = seriesOf(row, entrant.series);
  if (!series.error.empty()) return;
  try {
    run(series);
  } catch (const std::exception& e) {
    series = {.contender = entrant.series, .error = e.what()};
    std::fprintf(stderr, "peers: %s, %d ranks, %s: %s\n", row.what.name().c_str(), row.what.ranks,
                 tools::bytesText(row.what.bytes).c_str(), e.what());
    jobs_.end(*entrant.who);
  }
}

void Measurement::probe(const Case& what, Entrant& entrant, const Budget& budget) {
  const bool isLong = what.bytes >= kLong, isPeer = entrant.who != &contenders_.front();
  const uint32_t calls = isLong ? 1 : kProbe, warmups = isLong ? 1 : kWarm;
  Job& job = jobs_.of(*entrant.who);
  double begin = 0;
  try {  // the first one is with first touches and connections
    job.run(commandOf(what, entrant.ordinary, 1, 0), patienceOf(budget));
    begin = now_ns();
    job.run(commandOf(what, entrant.ordinary, calls, warmups), patienceOf(budget));
  } catch (const NoAnswer& e) {
    throw std::runtime_error(tooSlow(e.what()));
  }
  entrant.callSeconds = (now_ns() - begin) / 1e9 / (calls + warmups);
  if (isPeer && entrant.callSeconds * kLeastBlocks > 2 * budget.seconds)
    throw std::runtime_error(tooSlow("a call takes " + tools::timeText(entrant.callSeconds * 1e6)));
}

double Measurement::predictedUs(const Case& what, const Entrant& entrant, const Budget& budget) {
  worker_command command = commandOf(what, entrant.ordinary, 1, 0);
  command.predicts = 1;
  return jobs_.of(*entrant.who).run(command, patienceOf(budget)) / 1e3;
}

const Case* Measurement::tooSlowAt(const Case& what, const Contender& contender) const {
  const auto found = std::ranges::find_if(contest_.rows, [&](const Row& row) {
    const Series* const s = row.find(contender.name);
    return row.what.collective == what.collective && row.what.ranks == what.ranks &&
           row.what.bytes < what.bytes && s && s->error.starts_with(kTooSlow);
  });
  return found == contest_.rows.end() ? nullptr : &found->what;
}

double Measurement::block(const Case& what, const Entrant& entrant, const Budget& budget) {
  const uint32_t warmups = std::min(2U, entrant.calls / 2);
  const worker_command command = commandOf(what, entrant.ordinary, entrant.calls, warmups);
  return jobs_.of(*entrant.who).run(command, patienceOf(budget)) / 1e3;
}

void Measurement::takeTurns(Row& row, const Group& group, const Budget& budget) {
  jobs_.keep(row.what.ranks, group);
  std::vector<Entrant> all = entrants(row.what, group);
  size_t firstPair = 0;
  for (const std::string& memory : memory_)
    if (const Series* ours = row.find(memory)) firstPair = std::max(firstPair, ours->us.size());
  for (Entrant& e : all)
    guarded(row, e, [&](Series& s) {
      if (!isTutti(s)) s.firstPair = firstPair;
      probe(row.what, e, budget);
      if (isTutti(s)) s.predictedUs = predictedUs(row.what, e, budget);
    });
  std::erase_if(all, [&](const Entrant& e) { return !row.find(e.series)->error.empty(); });
  const double turn =
      budget.seconds / budget.blocks / static_cast<double>(std::max<size_t>(1, all.size()));
  double ofBlock = 0;
  for (Entrant& e : all) {
    e.calls = static_cast<uint32_t>(std::clamp(turn / e.callSeconds, 1.0, 1.0 * budget.calls));
    ofBlock += e.calls * e.callSeconds;
  }
  const int fitting = static_cast<int>(std::min(1e6, budget.seconds / std::max(ofBlock, 1e-9)));
  const int blocks = std::clamp(fitting, std::min(kLeastBlocks, budget.blocks), budget.blocks);
  for (int i = 0; i < blocks; ++i)
    for (const Entrant& e : all)
      guarded(row, e, [&](Series& s) { s.us.push_back(block(row.what, e, budget)); });
}

Row Measurement::measure(const Case& what, const Budget& budget) {
  const std::vector<Group> all = groups(what);
  Row row{.what = what, .flagNs = flagLatencyNs()};
  if (what.ranks == 2) row.limitUs = zeroCopyUs(what);
  Budget each = budget;
  each.seconds /= static_cast<double>(all.size());
  for (const Group& group : all) takeTurns(row, group, each);
  for (const Contender& peer : contenders_)
    if (const Case* smaller = tooSlowAt(what, peer))
      row.series.push_back(
          {.contender = peer.name,
           .error = tooSlow("it was so with " + tools::bytesText(smaller->bytes))});
  return row;
}

}  // namespace tutti::bench
