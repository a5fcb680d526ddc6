#include "collectives/simulate.h"

#include "src/base/check.h"
#include "src/plan/hosts.h"

namespace tutti::collectives {
namespace {

using topology::Cluster;

// A gigabyte per second is a thousand bytes per microsecond.
double perByte(double gigabytesPerSecond) { return 1 / (gigabytesPerSecond * 1e3); }

/// Each kind has two links for each of what it belongs to: out of it, and into it.
class ClusterLinks final : public Links {
 public:
  ClusterLinks(const Cluster& cluster, int ranks) : cluster_(cluster) {
    const auto add = [&](int count, double gigabytesPerSecond) {
      const auto first = static_cast<uint32_t>(perByte_.size());
      perByte_.insert(perByte_.end(), 2 * static_cast<size_t>(count), perByte(gigabytesPerSecond));
      return first;
    };
    const int hosts = cluster.hosts(ranks);
    ports_ = add(ranks, cluster.inside.gigabytesPerSecond);
    nics_ = add(hosts * cluster.nics.count, cluster.nics.gigabytesPerSecond);
    if (cluster.inside.sharedGigabytesPerSecond > 0)
      buses_ = add(hosts, cluster.inside.sharedGigabytesPerSecond);
    if (cluster.pods.hosts > 0)
      uplinks_ = add(cluster.podCount(ranks), cluster.uplinkGigabytesPerSecond());
  }

  size_t count() const override { return perByte_.size(); }
  double microsecondsPerByte(uint32_t link) const override { return perByte_[link]; }
  bool servesByReceipt() const override { return true; }

  Path path(int from, int to) const override {
    if (cluster_.hostOf(from) == cluster_.hostOf(to)) return inside(from, to);
    Path path{.microseconds = cluster_.nics.microseconds};
    const int fromPod = cluster_.podOf(from), toPod = cluster_.podOf(to);
    add(path, out(nics_, from / cluster_.ranksPerNic()));
    if (fromPod != toPod) add(path, out(uplinks_, fromPod));
    path.ofSender = path.count;
    if (fromPod != toPod) {
      add(path, into(uplinks_, toPod));
      path.microseconds += cluster_.pods.microseconds;
    }
    add(path, into(nics_, to / cluster_.ranksPerNic()));
    return path;
  }

 private:
  Path inside(int from, int to) const {
    Path path{.microseconds = cluster_.inside.microseconds};
    add(path, out(ports_, from));
    if (cluster_.inside.sharedGigabytesPerSecond > 0) add(path, out(buses_, cluster_.hostOf(from)));
    path.ofSender = path.count;
    add(path, into(ports_, to));
    return path;
  }
  static uint32_t out(uint32_t first, int index) {
    return first + 2 * static_cast<uint32_t>(index);
  }
  static uint32_t into(uint32_t first, int index) { return out(first, index) + 1; }
  static void add(Path& path, uint32_t link) { path.links[path.count++] = link; }

  const Cluster& cluster_;
  std::vector<double> perByte_;
  uint32_t ports_ = 0, nics_ = 0, buses_ = 0, uplinks_ = 0;  // the first of each kind
};

uint64_t operandsOf(const Program& program) {
  uint64_t operands = 0;
  for (const plan::Lane& lane : program.lanes)
    for (const plan::Step& step : lane.steps) operands += step.sources.size() + step.targets.size();
  return operands;
}

}  // namespace

Simulation::Simulation(const AlgorithmInfo& info, const PlanSpec& spec, const Cluster& cluster,
                       Walked walked, const SimulationLimits& limits)
    : spec_(spec), cluster_(cluster), limits_(limits) {
  if (const uint64_t least = uint64_t{spec.messageChunks} * plan::kChunkAlignment;
      least > cluster.messageBytes) {
    refusal_ = base::message("a message of ", spec.messageChunks, " chunks needs ", least,
                             " bytes and has ", cluster.messageBytes, " at most");
    return;
  }
  plan::Symmetry symmetry = plan::Symmetry::none(spec.ranks);
  if (walked == Walked::Classes) symmetry = info.symmetry(spec).ofGroups(cluster.ranksTogether());
  refusal_ = build(info, symmetry);
  if (refusal_.empty() || symmetry.kind != plan::Symmetry::Kind::None) return;
  refusal_ += ", and no two ranks are alike";
  if (info.symmetry(spec).kind != plan::Symmetry::Kind::None)
    refusal_ += base::message(" where ", cluster.ranksTogether(), " share links");
}

/// Returns why not.
std::string Simulation::build(const AlgorithmInfo& info, const plan::Symmetry& symmetry) {
  const std::vector<int> ranks = symmetry.representatives();
  if (!spec_.hosts.empty() && ranks.size() > limits_.ranksBuiltFromHosts)
    return base::message(ranks.size(), " programs that each follow from all hosts");
  std::vector<Program> programs;
  uint64_t operands = 0;
  for (const int rank : ranks) {
    programs.push_back(info.build(spec_, rank));
    operands += operandsOf(programs.back());
    if (operands > limits_.operands)
      return base::message("more than ", limits_.operands, " operands of steps");
  }
  const auto error = plan::flatten(spec_, symmetry, programs, flat_);
  TUTTI_ASSERT(!error, error->message);
  ranksWalked_ = programs.size();
  return {};
}

plan::PlanShape Simulation::shapeOf(uint64_t blockBytes) const {
  return {spec_, blockBytes, 1, cluster_.messageBytes};
}

std::string Simulation::refusal(uint64_t blockBytes) const {
  if (!refusal_.empty()) return refusal_;
  const uint64_t events =
      walkEvents(flat_, ClusterLinks(cluster_, spec_.ranks), shapeOf(blockBytes).rounds());
  if (events <= limits_.events) return {};
  return base::message("more than ", limits_.events, " steps of ", ranksWalked_,
                       " ranks and messages over links");
}

double Simulation::microseconds(uint64_t blockBytes) const {
  const plan::PlanShape shape = shapeOf(blockBytes);
  const StepRates rates{.step = cluster_.work.stepMicroseconds,
                        .copy = perByte(cluster_.work.copyGigabytesPerSecond),
                        .reduce = perByte(cluster_.work.reduceGigabytesPerSecond),
                        .mapped = 0};  // nothing is mapped here
  return walkMicroseconds(flat_, rates, ClusterLinks(cluster_, spec_.ranks),
                          static_cast<double>(shape.chunkBytes(0, 0)), shape.rounds());
}

std::optional<PlanSpec> specOn(const Cluster& cluster, const AlgorithmInfo& info,
                               Collective collective, int ranks, int channels) {
  std::vector<int> hostOf;
  for (int rank = 0; rank < ranks; ++rank) hostOf.push_back(cluster.hostOf(rank));
  return info.spec({collective, Protocol::Simple, ranks, 0, channels, plan::hostsInOrder(hostOf)});
}

}  // namespace tutti::collectives
