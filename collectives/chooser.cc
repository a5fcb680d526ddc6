#include "collectives/chooser.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <tuple>

#include "collectives/cost_walk.h"
#include "src/base/check.h"
#include "src/base/nearest_name.h"
#include "src/base/printable.h"
#include "src/plan/hosts.h"

namespace tutti::collectives {
namespace {

std::string duration(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", microseconds);
  return text;
}

bool forced(const plan::CollectiveRequest& request) {
  return !request.algorithm.empty() && !plan::parseProtocol(request.algorithm);
}

/// The least chunk must fit a message that carries several.
bool eligible(const PlanSpec& spec, const plan::CollectiveRequest& request,
              const topology::Topology& topology) {
  if (forced(request) && !isNamed(spec, request.algorithm)) return false;
  if (request.uneven && !spec.unevenSafe) return false;
  if (request.mayBeInPlace && !spec.inPlaceSafe) return false;
  if (spec.messageChunks * plan::kChunkAlignment > topology.slotBytes) return false;
  if (spec.channels > topology.channels) return false;
  return !request.deterministic || !plan::isReduction(spec.collective) || spec.canonicalOrder;
}

uint64_t roughly(double microseconds) {
  return std::bit_cast<uint64_t>(microseconds) >> 46;  // 6 bits of the mantissa
}

/// Predictions that agree to about a hundredth are taken for equal: where a link is the limit,
/// those of many plans are. Then the hierarchical one, which sends least between hosts, or the
/// algorithm that is listed first; and the fewest lanes.
bool faster(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::tuple(roughly(c.microseconds), c.spec.algorithm != Algorithm::Hierarchical,
                      c.spec.algorithm, c.spec.channels);
  };
  return key(a) < key(b);
}

std::vector<Candidate> collect(Protocol protocol, const plan::CollectiveRequest& request,
                               const topology::Topology& topology, const topology::Tuning& tuning) {
  std::vector<Candidate> found;
  const std::vector<int> hosts = plan::hostsInOrder(topology.hostOf);
  // Buffers are addressed by ranks of the same host alone.
  if (protocol != Protocol::Simple && !hosts.empty()) return found;
  if (protocol == Protocol::Attached && !topology.attached) return found;
  // On one host a rank's lanes only take turns; a link can carry one lane's message while another's
  // is awaited.
  const int most = hosts.empty() ? 1 : topology.channels;
  for (const AlgorithmInfo& info : registry().algorithms())
    for (int channels = 1; channels <= most; channels *= 2) {
      const auto spec =
          info.spec({request.collective, protocol, topology.ranks, request.root, channels, hosts});
      if (!spec || !eligible(*spec, request, topology)) continue;
      const auto same = [&](const Candidate& other) { return other.spec == *spec; };
      if (std::ranges::none_of(found, same))
        found.push_back(
            {*spec, predictMicroseconds(info, *spec, request.blockBytes(), topology, tuning)});
    }
  std::stable_sort(found.begin(), found.end(), faster);
  return found;
}

/// By which a request may name an algorithm.
std::vector<std::string> algorithmWords() {
  std::vector<std::string> words = plan::algorithmNames();
  words.emplace_back(kByFile);
  return words;
}

void checkName(const std::string& algorithm) {
  if (plan::parseProtocol(algorithm) || algorithm == kByFile) return;
  const AlgorithmName named(algorithm);
  TUTTI_REQUIRE(named.wellFormed, "algorithm \"", base::printable(algorithm),
                "\": behind the slash is no number of channels");
  for (int i = 0; i < plan::kAlgorithmCount; ++i)
    if (named.algorithm == plan::toString(static_cast<Algorithm>(i))) return;
  base::fail(ErrorCode::InvalidArgument, "algorithm \"", base::printable(algorithm), "\" is not ",
             base::listOfNames(algorithmWords()), base::didYouMean(algorithm, algorithmWords()));
}

/// Whether it says how buffers are reached, and not by which algorithm.
bool isForm(const std::string& name) {
  return name == kPreferStaged || plan::parseProtocol(name).has_value();
}

/// Whether a preference may name it. Each algorithm that a collective has for some ranks and hosts
/// it has for four ranks, on one host or two.
bool preferable(const std::string& name, Collective collective) {
  return name == kPreferStaged || exists(name, collective, 4) ||
         exists(name, collective, 4, {0, 0, 1, 1});
}

void requirePreference(const topology::Preference& p, const std::string& where) {
  const auto collective = plan::parseCollective(p.collective);
  TUTTI_REQUIRE(collective, where, ": there is no collective '", p.collective,
                "': ", base::listOfNames(plan::collectiveNames()),
                base::didYouMean(p.collective, plan::collectiveNames()));
  const AlgorithmName named(p.algorithm);
  TUTTI_REQUIRE(named.wellFormed, where, ": \"", p.algorithm,
                "\": behind the slash is no number of channels");
  const bool form = isForm(named.algorithm);
  if (preferable(named.algorithm, *collective) && !(form && named.channels > 0)) return;
  std::vector<std::string> known = algorithmWords();
  std::erase_if(known, [&](const std::string& name) { return !preferable(name, *collective); });
  known.emplace_back(kPreferStaged);
  base::fail(ErrorCode::InvalidArgument, where, ": ", p.collective, " has no algorithm \"",
             p.algorithm, "\": ", base::listOfNames(known), base::didYouMean(p.algorithm, known));
}

/// What the tuning table prefers for such a call.
struct Preferred {
  const std::string* algorithm = nullptr;  ///< among staged plans
  const std::string* form = nullptr;       ///< how to reach buffers

  bool isForm(const char* name) const { return form && *form == name; }
};
Preferred preferred(const plan::CollectiveRequest& request, const topology::Topology& topology,
                    const topology::Tuning& tuning) {
  Preferred found;
  if (!request.algorithm.empty() || tuning.preferences.empty()) return found;
  const std::string name = plan::toString(request.collective);
  const uint64_t bytes = preferenceBytes(request);
  for (const topology::Preference& p : tuning.preferences) {
    if (p.collective != name || p.ranks != topology.ranks || p.hosts != topology.hosts() ||
        p.blockBytes != bytes)
      continue;
    const std::string*& its = isForm(p.algorithm) ? found.form : found.algorithm;
    if (!its) its = &p.algorithm;
  }
  return found;
}

/// Puts the algorithm's fastest plan first, if there is one.
void putFirst(const std::string& algorithm, std::vector<Candidate>& candidates) {
  const auto found = std::ranges::find_if(
      candidates, [&](const Candidate& c) { return isNamed(c.spec, algorithm); });
  if (found != candidates.end()) std::rotate(candidates.begin(), found, found + 1);
}

/// Hosts are named where they matter.
std::string ranksOf(const plan::CollectiveRequest& request, const topology::Topology& topology) {
  std::string text = base::message(topology.ranks, " ranks");
  if (topology.hosts() > 1)
    text += base::message(" of ", topology.hosts(), " hosts",
                          AlgorithmName(request.algorithm).channels > topology.channels
                              ? base::message(" with ", topology.channels, " channels")
                              : "");
  else if (request.algorithm == plan::toString(Algorithm::Hierarchical))
    text += " of one host";
  return text;
}

[[noreturn]] void nothingFits(const plan::CollectiveRequest& request,
                              const topology::Topology& topology) {
  base::fail(ErrorCode::InvalidArgument, "algorithm ", request.algorithm, " does not exist for ",
             request.deterministic ? "deterministic " : "", plan::toString(request.collective),
             request.uneven ? " of uneven blocks on " : " on ", ranksOf(request, topology),
             request.deterministic ? ", or does not add in the canonical order" : "");
}

/// What stages nothing, if that pays or `isAsked`.
std::optional<PlanSpec> formOf(const plan::CollectiveRequest& request, const Candidate& staged,
                               const std::vector<Candidate>& forms, bool isAsked) {
  if (!request.mappable || request.op == ReduceOp::PreMulSum || forms.empty()) return {};
  const bool pays = forms.front().microseconds < staged.microseconds;
  if (!isAsked && (forced(request) || !pays)) return {};
  return forms.front().spec;
}

constexpr const char* kByTable = ", as the tuning table prefers";

std::string reasonOf(const plan::CollectiveRequest& request, const Choice& choice,
                     size_t simpleOnes, const Preferred& preference) {
  const Candidate& best = choice.candidates[0];
  const char* const name = plan::toString(choice.spec.algorithm);
  std::string reason = base::message(request.describe(), ": ", name, ", ");
  if (forced(request)) {
    reason += "as asked";
  } else {
    const bool byTable = preference.algorithm && isNamed(best.spec, *preference.algorithm);
    reason += base::message("predicted ", duration(best.microseconds), byTable ? kByTable : "");
    if (simpleOnes > 1) {
      const Candidate& next = choice.candidates[1];
      const bool equal = !byTable && roughly(next.microseconds) == roughly(best.microseconds);
      reason +=
          base::message("; next is ", plan::toString(next.spec.algorithm), ", ",
                        duration(next.microseconds), equal ? ", which is taken for equal" : "");
    }
  }
  if (choice.mapped)
    reason += base::message("; ", plan::toString(choice.mapped->algorithm),
                            " without staging where all buffers are mapped",
                            preference.form ? kByTable : "");
  if (choice.attached)
    reason += base::message("; ", plan::toString(choice.attached->algorithm),
                            " by reading others' memory where they are not");
  if (preference.isForm(kPreferStaged))
    reason += base::message("; staged also where buffers are mapped", kByTable);
  return reason;
}

/// Puts the file's plan, which can serve the call, before those of its protocol, and takes it.
void takeFile(const AlgorithmFile& file, const plan::CollectiveRequest& request,
              const topology::Topology& topology, const topology::Tuning& tuning, Choice& choice) {
  const PlanSpec& spec = file.spec();
  const double microseconds =
      predictMicroseconds(file.info(), spec, request.blockBytes(), topology, tuning);
  const bool mapped = spec.protocol == Protocol::Mapped;
  const auto place = std::ranges::find_if(choice.candidates, [&](const Candidate& candidate) {
    return (candidate.spec.protocol == Protocol::Mapped) == mapped;
  });
  choice.candidates.insert(place, {spec, microseconds});
  const std::string plan =
      base::message("file, the plan of ", file.path(), ", predicted ", duration(microseconds));
  if (!mapped) {
    choice.spec = spec;
    choice.mapped.reset();
    choice.attached.reset();
    choice.reason = base::message(request.describe(), ": ", plan);
  } else {
    choice.mapped = spec;
    choice.attached.reset();
    choice.reason += base::message("; instead, where all buffers are mapped, ", plan);
  }
}

Choice chooseFromLibrary(const plan::CollectiveRequest& request, const topology::Topology& topology,
                         const topology::Tuning& tuning) {
  Choice choice;
  choice.candidates = collect(Protocol::Simple, request, topology, tuning);
  if (choice.candidates.empty() && forced(request) && request.collective == Collective::Barrier) {
    plan::CollectiveRequest any = request;
    any.algorithm.clear();
    return chooseFromLibrary(any, topology, tuning);
  }
  if (choice.candidates.empty()) nothingFits(request, topology);
  const std::vector<Candidate> mappedOnes = collect(Protocol::Mapped, request, topology, tuning);
  const std::vector<Candidate> attachedOnes =
      collect(Protocol::Attached, request, topology, tuning);
  const Preferred preference = preferred(request, topology, tuning);
  const auto isAsked = [&](const char* form) {
    return request.algorithm == form || preference.isForm(form);
  };
  if (!preference.isForm(kPreferStaged)) {
    const Candidate& staged = choice.candidates.front();
    const bool reads = isAsked(kPreferAttached);
    choice.mapped = formOf(request, staged, mappedOnes, reads || isAsked(kPreferMapped));
    if (choice.mapped) choice.attached = formOf(request, staged, attachedOnes, reads);
  }
  if (preference.algorithm) putFirst(*preference.algorithm, choice.candidates);
  choice.spec = choice.candidates.front().spec;
  const size_t simpleOnes = choice.candidates.size();
  choice.candidates.insert(choice.candidates.end(), mappedOnes.begin(), mappedOnes.end());
  choice.candidates.insert(choice.candidates.end(), attachedOnes.begin(), attachedOnes.end());
  choice.reason = reasonOf(request, choice, simpleOnes, preference);
  return choice;
}

}  // namespace

std::string Choice::describe() const {
  std::string text = reason + "\n";
  for (const Candidate& candidate : candidates)
    text += "  " + duration(candidate.microseconds) + "  " + candidate.spec.describe() + "\n";
  return text;
}

double Choice::microsecondsOf(const PlanSpec& candidate) const {
  const auto found = std::ranges::find(candidates, candidate, &Candidate::spec);
  TUTTI_ASSERT(found != candidates.end(), "no candidate is ", candidate.describe());
  return found->microseconds;
}

bool isNamed(const PlanSpec& spec, const std::string& name) {
  if (spec.protocol != Protocol::Simple) return name == plan::toString(spec.protocol);
  const AlgorithmName named(name);
  return named.algorithm == plan::toString(spec.algorithm) && named.wellFormed &&
         (named.channels == 0 || named.channels == spec.channels);
}

uint64_t preferenceBytes(const plan::CollectiveRequest& request) {
  return std::bit_ceil(std::max<uint64_t>(request.blockBytes(), 8));
}

void requirePreferences(const topology::Tuning& tuning) {
  for (const topology::Preference& p : tuning.preferences) requirePreference(p, "tuning table");
}

topology::Tuning readTuning(const std::string& path) {
  return topology::Tuning::read(path, requirePreference);
}

Choice choose(const plan::CollectiveRequest& request, const topology::Topology& topology,
              const topology::Tuning& tuning, const AlgorithmFile* file) {
  if (!request.algorithm.empty()) checkName(request.algorithm);
  const bool byFile = request.algorithm == kByFile;
  if (!byFile && (!file || !request.algorithm.empty()))
    return chooseFromLibrary(request, topology, tuning);
  if (byFile && (!file || request.collective != Collective::Barrier)) {
    const std::string fault = whyNot(kByFile, request, topology, file);
    if (!fault.empty()) base::fail(ErrorCode::InvalidArgument, fault);
  }
  plan::CollectiveRequest any = request;
  any.algorithm.clear();
  Choice choice = chooseFromLibrary(any, topology, tuning);
  const std::string misfit = file->misfit(request, topology);
  if (misfit.empty())
    takeFile(*file, request, topology, tuning, choice);
  else
    choice.reason += base::message("; the plan of ", file->path(), " ", misfit);
  return choice;
}

}  // namespace tutti::collectives
