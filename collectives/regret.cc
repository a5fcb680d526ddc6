#include "collectives/regret.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <tuple>
#include <utility>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/plan/mapped_buffer_policy.h"

namespace tutti::collectives {
namespace {

using topology::Tuning;

/// As a communicator chooses: asking whatever memory a call has, and once for all
/// blocks up to a power of two.
Choice choiceFor(const MeasuredCall& call, const Tuning& tuning) {
  plan::CollectiveRequest request = call.request;
  request.mappable = true;
  request.count = preferenceBytes(request) / sizeOf(request.type);
  return choose(request, call.topology, tuning);
}

double bestOf(const MeasuredCall& call) {
  double best = HUGE_VAL;
  for (const auto& entry : call.microseconds) best = std::min(best, entry.second);
  return best;
}

auto measured(const MeasuredCall& call, const PlanSpec& spec) {
  return std::ranges::find_if(call.microseconds,
                              [&](const auto& entry) { return isNamed(spec, entry.first); });
}

double timeOf(const MeasuredCall& call, const PlanSpec& spec) {
  const auto found = measured(call, spec);
  TUTTI_REQUIRE(found != call.microseconds.end(), call.request.describe(), " on ",
                call.topology.ranks, " ranks: ", spec.describe(),
                " is chosen, and was not measured");
  return found->second;
}

double timeOf(const MeasuredCall& call, const Choice& choice) {
  if (choice.mapped && call.windows) return timeOf(call, *choice.mapped);
  if (choice.attached) return timeOf(call, *choice.attached);
  const double asking =
      choice.mapped ? call.policyMicroseconds / plan::MappedBufferPolicy::kEvery : 0;
  return timeOf(call, choice.spec) + asking;
}

/// What is chosen by, beside constants and preferences, and what is the same for all measured calls
/// (type, reduction and root).
auto chosenBy(const MeasuredCall& call) {
  const topology::Topology& t = call.topology;
  return std::tuple<plan::Collective, uint64_t, int, int, size_t, int, bool,
                    const std::vector<int>&>(call.request.collective, preferenceBytes(call.request),
                                             t.ranks, t.cores, t.slotBytes, t.channels, t.attached,
                                             t.hostOf);
}

bool sameCall(const MeasuredCall& a, const MeasuredCall& b) {
  return a.windows == b.windows && a.request.blockBytes() == b.request.blockBytes() &&
         chosenBy(a) == chosenBy(b);
}

/// The factor between prediction and measurement, whichever is larger, as a logarithm: the mean
/// over the algorithms.
double distance(const MeasuredCall& call, const Choice& choice) {
  double sum = 0;
  int count = 0;
  std::map<std::string, bool> seen;  // several plans of one name: the first is the fastest
  for (const Candidate& candidate : choice.candidates) {
    const auto found = measured(call, candidate.spec);
    if (found == call.microseconds.end() || std::exchange(seen[found->first], true)) continue;
    sum += std::abs(std::log(candidate.microseconds / found->second));
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

/// What fit() makes small. A choice is made once for neighbours that are alike.
double loss(std::span<const MeasuredCall> calls, const Tuning& tuning) {
  double sum = 0, squares = 0, far = 0;
  const MeasuredCall* chosenFor = nullptr;
  Choice choice;
  for (const MeasuredCall& call : calls) {
    if (!chosenFor || chosenBy(*chosenFor) != chosenBy(call)) choice = choiceFor(call, tuning);
    chosenFor = &call;
    const double logRegret = std::log(timeOf(call, choice) / bestOf(call));
    sum += logRegret;
    squares += logRegret * logRegret;
    far += distance(call, choice);
  }
  const auto count = static_cast<double>(std::max<size_t>(calls.size(), 1));
  return std::sqrt(squares / count) + sum / count + 0.05 * far / count;
}

// From which regret on what is best is written down.
constexpr double kBadlyChosen = 1.1;
// By how much of a regret a preference more has to be better.
constexpr double kWorthALine = 0.01;

/// The calls that one preference is for.
using Alike = std::vector<const MeasuredCall*>;

Regrets regretsOf(const Alike& calls, const Tuning& tuning) {
  Regrets all;
  double sum = 0;
  for (const MeasuredCall* call : calls) {
    const double one = regret(*call, tuning);
    sum += one;
    all.worst = std::max(all.worst, one);
  }
  if (!calls.empty()) all.mean = sum / static_cast<double>(calls.size());
  return all;
}

/// The fewest preferences with which these calls are chosen for best, the worst of them above all,
/// at the end of those that `tuning` has.
void preferFor(const Alike& calls, Tuning& tuning) {
  const MeasuredCall& first = *calls.front();
  const auto preference = [&](const std::string& algorithm) {
    return topology::Preference{.collective = plan::toString(first.request.collective),
                                .ranks = first.topology.ranks,
                                .hosts = first.topology.hosts(),
                                .blockBytes = preferenceBytes(first.request),
                                .algorithm = algorithm};
  };
  std::vector<std::vector<topology::Preference>> ways;
  std::vector<const char*> forms{kPreferStaged, kPreferMapped};
  if (first.topology.attached) forms.push_back(kPreferAttached);
  for (const char* form : forms) ways.push_back({preference(form)});
  for (const auto& entry : first.microseconds)
    if (!plan::parseProtocol(entry.first)) ways.push_back({preference(entry.first)});
  for (size_t i = 0, single = ways.size(); i < forms.size(); ++i)
    for (size_t k = forms.size(); k < single; ++k) ways.push_back({ways[i][0], ways[k][0]});
  Tuning best = tuning;
  const auto badness = [&](const Tuning& some) {
    const Regrets all = regretsOf(calls, some);
    return all.worst + all.mean;
  };
  double least = badness(tuning);
  for (const auto& way : ways) {
    Tuning changed = tuning;
    changed.preferences.insert(changed.preferences.end(), way.begin(), way.end());
    if (const double its = badness(changed); its < least - kWorthALine) {
      least = its;
      best = std::move(changed);
    }
  }
  tuning = std::move(best);
}

/// Of an odd number of values the middle one, of an even one between the two in the middle.
double middleOf(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double middleLogarithm(const MeasuredCall& call) {
  std::vector<double> logarithms;
  for (const auto& entry : call.microseconds) logarithms.push_back(std::log(entry.second));
  return middleOf(logarithms);
}

/// One call from several measurements of it.
MeasuredCall inTheMiddle(const Alike& calls) {
  MeasuredCall all = *calls.front();
  if (all.microseconds.empty()) return all;
  std::vector<double> middles, asking;
  for (const MeasuredCall* call : calls) {
    middles.push_back(middleLogarithm(*call));
    asking.push_back(call->policyMicroseconds);
  }
  for (auto& [name, time] : all.microseconds) {
    std::vector<double> ratios;
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto found = calls[i]->microseconds.find(name);
      TUTTI_REQUIRE(found != calls[i]->microseconds.end(), all.request.describe(), " on ",
                    all.topology.ranks, " ranks: ", name, " was not measured every time");
      ratios.push_back(std::log(found->second) - middles[i]);
    }
    time = std::exp(middleOf(middles) + middleOf(ratios));
  }
  all.policyMicroseconds = middleOf(asking);
  return all;
}

/// Where calls were measured for two sizes, what one of a size between would take: of what was
/// measured for both, on a line between logarithms.
MeasuredCall between(const MeasuredCall& small, const MeasuredCall& large, uint64_t bytes) {
  const double share = std::log(static_cast<double>(bytes) / small.request.blockBytes()) /
                       std::log(static_cast<double>(large.request.blockBytes()) /
                                static_cast<double>(small.request.blockBytes()));
  MeasuredCall call = small;
  call.request.count = bytes / sizeOf(call.request.type);
  call.microseconds.clear();
  for (const auto& [name, time] : small.microseconds)
    if (const auto found = large.microseconds.find(name); found != large.microseconds.end())
      call.microseconds[name] = std::pow(time, 1 - share) * std::pow(found->second, share);
  return call;
}

/// The calls, and those of sizes between theirs: for each power of two, up to which one choice is
/// made for all blocks, one in the midst of these, and the largest.
std::vector<MeasuredCall> withThoseBetween(std::span<const MeasuredCall> calls) {
  std::map<std::tuple<plan::Collective, bool, std::vector<int>, int, int, size_t, int, bool>, Alike>
      series;
  for (const MeasuredCall& call : calls) {
    const topology::Topology& t = call.topology;
    series[{call.request.collective, call.windows, t.hostOf, t.ranks, t.cores, t.slotBytes,
            t.channels, t.attached}]
        .push_back(&call);
  }
  std::vector<MeasuredCall> all(calls.begin(), calls.end());
  for (auto& entry : series) {
    const auto size = [](const MeasuredCall* call) { return call->request.blockBytes(); };
    std::ranges::stable_sort(entry.second, {}, size);
    for (size_t i = 1; i < entry.second.size(); ++i) {
      const MeasuredCall &small = *entry.second[i - 1], &large = *entry.second[i];
      for (uint64_t most = 2 * preferenceBytes(small.request);
           most <= preferenceBytes(large.request); most *= 2)
        for (const uint64_t bytes : {most / 4 * 3, most})
          if (bytes > size(&small) && bytes < size(&large))
            all.push_back(between(small, large, bytes));
    }
  }
  return all;
}

/// What constants choose badly for is preferred by name.
void prefer(std::span<const MeasuredCall> calls, Tuning& tuning) {
  std::map<std::tuple<plan::Collective, int, int, uint64_t>, Alike> groups;
  const std::vector<MeasuredCall> all = withThoseBetween(calls);
  for (const MeasuredCall& call : all)
    groups[{call.request.collective, call.topology.ranks, call.topology.hosts(),
            preferenceBytes(call.request)}]
        .push_back(&call);
  const Tuning constants = tuning;
  for (const auto& entry : groups) {
    if (tuning.preferences.size() + 2 > Tuning::kMostPreferences) return;
    if (regretsOf(entry.second, constants).worst > kBadlyChosen) preferFor(entry.second, tuning);
  }
}

/// Goes from constants to better ones.
class RegretSearch {
 public:
  RegretSearch(std::span<const MeasuredCall> calls, const Tuning& start)
      : calls_(calls.begin(), calls.end()), best_(start), least_(0) {
    std::ranges::stable_sort(
        calls_, [](const auto& a, const auto& b) { return chosenBy(a) < chosenBy(b); });
    best_.preferences.clear();  // they would hide what the constants choose
    least_ = loss(calls_, best_);
    const bool isTold = std::ranges::any_of(
        calls_, [](const MeasuredCall& call) { return call.topology.attached; });
    for (const topology::Constant& constant : topology::constants())
      if (isTold || !isOfAttached(constant)) constants_.push_back(&constant);
  }

  void oneByOne() {
    bool better = true;
    for (int sweep = 0; sweep < 8 && std::exchange(better, false); ++sweep)
      for (const topology::Constant* constant : constants_)
        for (const double factor : {0.25, 0.5, 0.7, 0.85, 0.93, 1.08, 1.2, 1.4, 2.0, 4.0}) {
          Tuning changed = best_;
          scale(changed, *constant, factor);
          better |= take(changed);
        }
  }

  /// Several at a time, for what no single change makes better.
  void together() {
    constexpr size_t kMostTrials = 1500, kLeastTrials = 100, kChoices = 150'000;
    const size_t trials =
        std::clamp(kChoices / std::max<size_t>(calls_.size(), 1), kLeastTrials, kMostTrials);
    std::mt19937_64 random(1);
    for (size_t i = 0; i < trials; ++i) {
      const double reach = 0.05 * std::pow(2.0, static_cast<double>(i % 5));  // of a logarithm
      Tuning changed = best_;
      for (const topology::Constant* constant : constants_) {
        const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
        if (random() % 2 == 0) scale(changed, *constant, std::exp(reach * (2 * uniform - 1)));
      }
      take(changed);
    }
  }

  /// What the calls do not tell.
  void restore(const Tuning& start) {
    for (const topology::Constant* constant : constants_) {
      Tuning changed = best_;
      changed.*constant->value = start.*constant->value;
      if (loss(calls_, changed) <= least_ + 1e-9) best_ = changed;
    }
  }

  const Tuning& best() const { return best_; }

 private:
  static bool isOfAttached(const topology::Constant& constant) {
    return constant.value == &Tuning::attachMicroseconds ||
           constant.value == &Tuning::attachGigabytesPerSecond;
  }
  static void scale(Tuning& tuning, const topology::Constant& constant, double factor) {
    double& value = tuning.*constant.value;
    value = std::clamp(value * factor, constant.least, constant.most);
  }
  bool take(const Tuning& changed) {
    const double itsLoss = loss(calls_, changed);
    if (itsLoss >= least_ - 1e-6) return false;
    least_ = itsLoss;
    best_ = changed;
    return true;
  }

  std::vector<MeasuredCall> calls_;                   // those alike beside each other
  std::vector<const topology::Constant*> constants_;  // of which the calls may tell
  Tuning best_;
  double least_;
};

}  // namespace

std::vector<MeasuredCall> merged(std::span<const MeasuredCall> calls) {
  std::vector<Alike> groups;
  for (const MeasuredCall& call : calls) {
    const auto same = [&](const Alike& group) { return sameCall(*group.front(), call); };
    const auto found = std::ranges::find_if(groups, same);
    if (found == groups.end())
      groups.push_back({&call});
    else
      found->push_back(&call);
  }
  std::vector<MeasuredCall> result;
  for (const Alike& group : groups) result.push_back(inTheMiddle(group));
  return result;
}

double regret(const MeasuredCall& call, const Tuning& tuning) {
  return timeOf(call, choiceFor(call, tuning)) / bestOf(call);
}

Regrets regrets(std::span<const MeasuredCall> calls, const Tuning& tuning) {
  Alike all;
  for (const MeasuredCall& call : calls) all.push_back(&call);
  return regretsOf(all, tuning);
}

Tuning fit(std::span<const MeasuredCall> calls, const Tuning& start) {
  RegretSearch search(calls, start);
  search.oneByOne();
  search.together();
  search.oneByOne();
  search.restore(start);
  Tuning found = search.best();
  prefer(calls, found);
  return found;
}

}  // namespace tutti::collectives
