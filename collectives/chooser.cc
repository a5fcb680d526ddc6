#include "collectives/chooser.h"

#include <algorithm>
#include <cstdio>

#include "src/base/check.h"

namespace tutti::collectives {
namespace {

constexpr uint64_t kMappedFromBytes = 16384;  // below it exchanging entry records costs more

/// Latency of the longest chain of messages plus what the busiest rank moves.
double predict(const PlanSpec& spec, const Cost& cost, const plan::CollectiveRequest& request,
               const topology::Topology& topology, const topology::Tuning& tuning) {
  const double wait =
      tuning.messageMicroseconds + (topology.oversubscribed() ? tuning.yieldMicroseconds : 0);
  double microseconds = cost.steps * wait;
  const double megabytes = cost.blocksSent * static_cast<double>(request.blockBytes()) / 1e3;
  if (spec.protocol == Protocol::Mapped)
    return microseconds + tuning.entryMicroseconds + megabytes / tuning.mappedGigabytesPerSecond;
  microseconds += megabytes / tuning.copyGigabytesPerSecond;
  if (plan::isReduction(spec.collective))
    microseconds += megabytes / tuning.reduceGigabytesPerSecond;
  return microseconds;
}

std::string duration(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", microseconds);
  return text;
}

bool forced(const plan::CollectiveRequest& request) {
  return !request.algorithm.empty() && request.algorithm != "mapped" &&
         request.collective != Collective::Barrier;
}

bool eligible(const PlanSpec& spec, const plan::CollectiveRequest& request) {
  if (forced(request) && request.algorithm != plan::toString(spec.algorithm)) return false;
  return !request.deterministic || !plan::isReduction(spec.collective) || spec.canonicalOrder;
}

std::vector<Candidate> collect(Protocol protocol, const plan::CollectiveRequest& request,
                               const topology::Topology& topology, const topology::Tuning& tuning) {
  std::vector<Candidate> found;
  for (const AlgorithmInfo& info : registry().algorithms()) {
    const auto spec = info.spec({request.collective, protocol, topology.ranks, request.root, 1});
    if (spec && eligible(*spec, request))
      found.push_back({*spec, predict(*spec, info.cost(*spec), request, topology, tuning)});
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.microseconds < b.microseconds;
  });
  return found;
}

void checkName(const plan::CollectiveRequest& request) {
  if (request.algorithm.empty() || request.algorithm == "mapped") return;
  std::string known;
  for (int i = 0; i < plan::kAlgorithmCount; ++i) {
    const char* name = plan::toString(static_cast<Algorithm>(i));
    if (request.algorithm == name) return;
    known += name + std::string(", ");
  }
  base::fail(ErrorCode::InvalidArgument, "algorithm \"", request.algorithm, "\" is none of ", known,
             "mapped");
}

[[noreturn]] void nothingFits(const plan::CollectiveRequest& request,
                              const topology::Topology& topology) {
  base::fail(ErrorCode::InvalidArgument, "algorithm ", request.algorithm, " does not exist for ",
             request.deterministic ? "deterministic " : "", plan::toString(request.collective),
             " on ", topology.ranks, " ranks",
             request.deterministic ? ", or does not add in the canonical order" : "");
}

std::optional<PlanSpec> mappedForm(const plan::CollectiveRequest& request,
                                   const std::vector<Candidate>& candidates) {
  const bool asked = request.algorithm == "mapped";
  if (!request.mappable || request.op == ReduceOp::PreMulSum || candidates.empty()) return {};
  if (!asked && (forced(request) || request.blockBytes() < kMappedFromBytes)) return {};
  return candidates.front().spec;
}

}  // namespace

std::string Choice::describe() const {
  std::string text = reason + "\n";
  for (const Candidate& candidate : candidates)
    text += "  " + duration(candidate.microseconds) + "  " + candidate.spec.describe() + "\n";
  return text;
}

Choice choose(const plan::CollectiveRequest& request, const topology::Topology& topology,
              const topology::Tuning& tuning) {
  checkName(request);
  Choice choice;
  choice.candidates = collect(Protocol::Simple, request, topology, tuning);
  if (choice.candidates.empty()) nothingFits(request, topology);
  choice.spec = choice.candidates.front().spec;
  const std::vector<Candidate> mappedOnes = collect(Protocol::Mapped, request, topology, tuning);
  choice.mapped = mappedForm(request, mappedOnes);
  choice.candidates.insert(choice.candidates.end(), mappedOnes.begin(), mappedOnes.end());
  choice.reason = base::message(request.describe(), ": ", plan::toString(choice.spec.algorithm),
                                forced(request) ? ", as asked" : ", the fastest predicted, ",
                                forced(request) ? "" : duration(choice.candidates[0].microseconds));
  if (choice.mapped)
    choice.reason += base::message("; ", plan::toString(choice.mapped->algorithm),
                                   " mapped where all buffers are mapped");
  return choice;
}

}  // namespace tutti::collectives
