#include "src/tools/shard/shard_report.h"

#include <algorithm>
#include <set>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/tools/shard/shard_cases.h"

namespace tutti::tools {
namespace {

using base::message;
using parallel::Axis;
using parallel::Derivation;
using parallel::Layout;
using parallel::Move;
using parallel::RedistributionStep;
using parallel::Shape;
using parallel::Term;

// Ways that are shown.
constexpr size_t kMostWays = 5;

plan::Collective collectiveOf(Move move) {
  switch (move) {
    case Move::AllReduce: return plan::Collective::AllReduce;
    case Move::ReduceScatter: return plan::Collective::ReduceScatter;
    case Move::AllGather: return plan::Collective::AllGather;
    case Move::AllToAll: return plan::Collective::AllToAll;
    case Move::Slice: break;
  }
  base::fail(ErrorCode::Internal, "a slice is no collective");
}

/// How long the steps take: each as the only call of those who are along its axis, while all others
/// make the same call, and share cores and links of hosts with them.
class ShardPrediction {
 public:
  explicit ShardPrediction(const ShardOptions& o)
      : o_(o), ranksPerHost_(o.job.topology().ranksPerHost()), tuning_(o.job.tuning()) {}

  /// Sets what a step that is a collective among several ranks takes.
  void predict(const RedistributionStep& step, const Shape& global, ShardStep& result) const {
    const plan::CollectiveRequest request = requestFor(step, global);
    for (const std::vector<int>& hosts : hostsAlong(step.axis)) {
      const collectives::Choice choice = chooseOn(hosts, o_.mesh.shape[step.axis], request);
      if (choice.candidates.front().microseconds <= result.microseconds) continue;
      result.microseconds = choice.candidates.front().microseconds;
      result.algorithm = plan::toString(choice.spec.algorithm);
    }
  }

 private:
  plan::CollectiveRequest requestFor(const RedistributionStep& step, const Shape& global) const {
    const Shape before = localShape(global, step.before, o_.mesh.shape, {});
    const Shape after = localShape(global, step.after, o_.mesh.shape, {});
    const int ranks = o_.mesh.shape[step.axis];
    // The rank whose part is cut, or becomes whole, has blocks of it for everybody.
    const Shape& blocks = step.move == Move::AllGather ? after : before;
    int64_t count = blocks.count();
    bool uneven = false;
    if (step.move != Move::AllReduce) count = (count + ranks - 1) / ranks;
    // AllToAllV is no plan that is chosen: it takes as long as an AllToAll of its mean blocks.
    if (step.move == Move::AllGather) uneven = after[step.from] % ranks != 0;
    if (step.move == Move::ReduceScatter) uneven = before[step.to] % ranks != 0;
    return {.collective = collectiveOf(step.move),
            .count = static_cast<uint64_t>(count),
            .type = o_.type,
            .uneven = uneven};
  }

  /// The hosts, numbered from 0, of the ranks along the axis: of each set of ranks whose places are
  /// other ones.
  std::set<std::vector<int>> hostsAlong(Axis axis) const {
    if (o_.job.hostOf.empty()) return {{}};
    std::set<std::vector<int>> found;
    for (int first = 0; first < o_.job.ranks; ++first) {
      parallel::MeshPlace place = placeOf(o_.mesh.shape, first);
      if (place[static_cast<size_t>(axis)] != 0) continue;
      std::vector<int> hosts, seen;
      for (int i = 0; i < o_.mesh.shape[axis]; ++i) {
        place[static_cast<size_t>(axis)] = i;
        const int host = o_.job.hostOf[static_cast<size_t>(rankAt(o_.mesh.shape, place))];
        const auto at = std::ranges::find(seen, host);
        hosts.push_back(static_cast<int>(at - seen.begin()));
        if (at == seen.end()) seen.push_back(host);
      }
      found.insert(hosts);
    }
    return found;
  }

  collectives::Choice chooseOn(const std::vector<int>& hosts, int ranks,
                               const plan::CollectiveRequest& request) const {
    PlannedJob group{.ranks = ranks, .hostOf = hosts, .cores = 0, .tuningFile = {}};
    const int together = group.topology().ranksPerHost();
    if (o_.job.cores > 0) group.cores = std::max(1, o_.job.cores * together / ranksPerHost_);
    topology::Tuning tuning = tuning_;
    tuning.networkGigabytesPerSecond *= static_cast<double>(together) / ranksPerHost_;
    return collectives::choose(request, group.topology(), tuning);
  }

  const ShardOptions& o_;
  const int ranksPerHost_;
  const topology::Tuning tuning_;
};

class Reporter {
 public:
  explicit Reporter(const ShardOptions& o) : o_(o), prediction_(o) {}

  ShardReport report() {
    ShardReport report{.product = describe(o_.product, o_.mesh.letters),
                       .mesh = describe(o_.mesh),
                       .ranks = o_.mesh.shape.ranks(),
                       .type = o_.type,
                       .tensors = {},
                       .cases = shardCases(o_.product, o_.mesh.letters),
                       .ways = {},
                       .halves = {},
                       .flops = 2};
    for (const Derivation& d : derive(o_.product, o_.sizes, o_.mesh.shape, kMostWays))
      report.ways.push_back(way(d));
    for (const Term* term : {&o_.product.a, &o_.product.b, &o_.product.c})
      report.tensors.push_back(tensor(*term));
    report.halves = halves_;
    for (const auto& [index, size] : o_.sizes) report.flops *= static_cast<double>(size);
    return report;
  }

 private:
  uint64_t bytesOf(int64_t elements) const {
    return static_cast<uint64_t>(elements) * sizeOf(o_.type);
  }

  std::string textOf(const Term& term, const Layout& layout) const {
    Term other = term;
    other.layout = layout;
    return describe(other, o_.mesh.letters);
  }

  ShardTensor tensor(const Term& term) const {
    ShardTensor tensor{
        .text = describe(term, o_.mesh.letters), .shape = globalShape(term, o_.sizes), .part = {}};
    tensor.part = localShape(tensor.shape, term.layout, o_.mesh.shape, {});
    tensor.bytes = bytesOf(tensor.shape.count());
    tensor.partBytes = bytesOf(tensor.part.count());
    return tensor;
  }

  ShardStep stepOf(const Term& term, const RedistributionStep& step) const {
    ShardStep result{.what = toString(step.move),
                     .tensor = term.name,
                     .axis = o_.mesh.letters[step.axis],
                     .ranks = o_.mesh.shape[step.axis],
                     .before = textOf(term, step.before),
                     .after = textOf(term, step.after),
                     .sentBytes = bytesOf(step.sent),
                     .algorithm = {}};
    if (step.move != Move::Slice && result.ranks > 1)
      prediction_.predict(step, globalShape(term, o_.sizes), result);
    return result;
  }

  ShardWay way(const Derivation& d) {
    ShardWay way;
    const auto add = [&](const Term& term, const std::vector<RedistributionStep>& steps) {
      for (const RedistributionStep& step : steps) {
        way.steps.push_back(stepOf(term, step));
        if (step.move == Move::AllReduce && !halves_) halves_ = halvesOf(term, step);
      }
    };
    add(o_.product.a, d.stepsOfA);
    add(o_.product.b, d.stepsOfB);
    const parallel::Product& m = d.multiplied;
    way.steps.push_back(
        {.what = "multiply",
         .tensor = {},
         .before = message(describe(m.a, o_.mesh.letters), " ", describe(m.b, o_.mesh.letters)),
         .after = describe(m.c, o_.mesh.letters),
         .algorithm = {},
         .flops = d.flops});
    add(o_.product.c, d.stepsOfC);
    way.flops = d.flops;
    way.sentBytes = bytesOf(d.sent);
    for (const ShardStep& step : way.steps) way.microseconds += step.microseconds;
    return way;
  }

  /// Of an AllReduce; nothing where no dimension can be split by its axis too.
  std::optional<ShardHalves> halvesOf(const Term& term, const RedistributionStep& whole) const {
    const Shape global = globalShape(term, o_.sizes);
    const Shape part = localShape(global, whole.before, o_.mesh.shape, {});
    for (int d = 0; d < global.rank(); ++d) {
      if (part[d] < o_.mesh.shape[whole.axis]) continue;
      Layout between = whole.after;
      between.dims[static_cast<size_t>(d)].append(whole.axis);
      const auto first = redistribution(global, o_.mesh.shape, whole.before, between);
      const auto second = redistribution(global, o_.mesh.shape, between, whole.after);
      return ShardHalves{.bytes = bytesOf(part.count()),
                         .allReduce = stepOf(term, whole),
                         .reduceScatter = stepOf(term, first.at(0)),
                         .allGather = stepOf(term, second.at(0))};
    }
    return std::nullopt;
  }

  const ShardOptions& o_;
  const ShardPrediction prediction_;
  std::optional<ShardHalves> halves_;
};

}  // namespace

ShardReport shardReport(const ShardOptions& options) { return Reporter(options).report(); }

}  // namespace tutti::tools
