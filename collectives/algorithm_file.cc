#include "collectives/algorithm_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/base/nearest_name.h"
#include "src/base/printable.h"
#include "src/base/read_text.h"
#include "src/plan/hosts.h"
#include "src/plan/json.h"

namespace tutti::collectives {
namespace {

// A ring of 256 ranks has 30 MB.
constexpr size_t kMostFileBytes = 64 << 20;

// The checker's memory and time are bounded by these products, which leave room for the library's
// own plans of 256 ranks.
constexpr uint64_t kMostPlaces = 1 << 20;       // chunks of all buffers of all ranks
constexpr uint64_t kMostChunksMoved = 1 << 21;  // by all ports of all ranks, in a round
constexpr uint64_t kMostClocks = 1 << 27;  // ports and lanes of all ranks, times lanes of all ranks

struct PlanSize {
  uint64_t lanes = 0, ports = 0, chunks = 0;  // of all ranks
  size_t mostLanes = 0, mostOperands = 0;     // of a rank; of a step
};

PlanSize sizeOf(const std::vector<Program>& programs) {
  PlanSize all;
  for (const Program& program : programs) {
    all.lanes += program.lanes.size();
    all.mostLanes = std::max(all.mostLanes, program.lanes.size());
    for (const plan::Lane& lane : program.lanes)
      for (const plan::Step& step : lane.steps) {
        const size_t operands = step.sources.size() + step.targets.size();
        all.mostOperands = std::max(all.mostOperands, operands);
        all.ports += 1 + operands + step.after.size();
        for (const auto* ports : {&step.sources, &step.targets})
          for (const plan::Port& port : *ports) all.chunks += port.chunks;
      }
  }
  return all;
}

void requireProvable(const std::string& path, const PlanSpec& spec, const PlanSize& size) {
  const uint64_t blocks = uint64_t{plan::blocksOf(spec, plan::Buffer::In)} +
                          plan::blocksOf(spec, plan::Buffer::Out) + spec.scratchBlocks;
  const auto require = [&](uint64_t has, uint64_t most, const char* what) {
    TUTTI_REQUIRE(has <= most, path, ": the plan has ", has, " ", what, ", and at most ", most,
                  " can be proved");
  };
  require(blocks * spec.divisions * static_cast<uint64_t>(spec.ranks), kMostPlaces,
          "chunks in the buffers of all ranks (ranks * blocks * divisions)");
  require(size.chunks, kMostChunksMoved, "chunks in the sources and targets of all steps");
  require((size.ports + size.lanes) * size.lanes, kMostClocks,
          "sources, targets, awaited steps and lanes, times lanes, of all ranks");
}

AlgorithmInfo infoFor(const PlanSpec& own,
                      const std::shared_ptr<const std::vector<Program>>& programs,
                      const plan::Measured& measured) {
  return {.algorithm = Algorithm::File,
          .spec = [own](const SpecRequest& request) -> std::optional<PlanSpec> {
            const bool serves = request.collective == own.collective &&
                                request.protocol == own.protocol && request.ranks == own.ranks &&
                                (!plan::hasRoot(own.collective) || request.root == own.root) &&
                                (own.hosts.empty() || request.hosts == own.hosts);
            return serves ? std::optional(own) : std::nullopt;
          },
          .build =
              [own, programs](const PlanSpec& spec, int rank) {
                TUTTI_ASSERT(spec == own, "not the plan of the file: ", spec.describe());
                return programs->at(static_cast<size_t>(rank));
              },
          .cost =
              // How many of the steps are between hosts is not measured: all may be.
          [measured](const PlanSpec& spec) {
            return Cost{measured.steps, measured.blocksSent, measured.linkBlocks,
                        measured.hostBlocks, spec.hosts.empty() ? 0 : measured.steps};
          },
          .symmetry = [](const PlanSpec& spec) { return plan::Symmetry::none(spec.ranks); }};
}

/// What the call may name: "ring, two_shot or mapped".
std::string existingNames(const plan::CollectiveRequest& request,
                          const topology::Topology& topology) {
  std::vector<std::string> names = plan::algorithmNames();
  std::erase_if(names, [&](const std::string& name) {
    return !exists(name, request.collective, topology.ranks, plan::hostsInOrder(topology.hostOf),
                   request.uneven);
  });
  return names.empty() ? "none" : base::listOfNames(names);
}

}  // namespace

AlgorithmFile::AlgorithmFile(const std::string& path, const std::string& text)
    : path_(base::printable(path)) {
  plan::WholePlan whole = plan::parsePlan(path_, text);
  const PlanSize size = sizeOf(whole.programs);
  requireProvable(path_, whole.spec, size);
  TUTTI_REQUIRE(whole.spec.protocol != Protocol::Attached, path_,
                ": spec.protocol is attached: a file's plan is simple or mapped");
  TUTTI_REQUIRE(
      whole.spec.inPlaceSafe || whole.spec.protocol == Protocol::Mapped, path_,
      ": spec.in_place_safe is false, and of calls that stage their data some are in place");
  mostLanes_ = size.mostLanes;
  mostOperands_ = size.mostOperands;
  spec_ = std::move(whole.spec);
  spec_.algorithm = Algorithm::File;
  spec_.programsHash = plan::hashOf(whole.programs);
  // Three rounds contain two; one is measured.
  const plan::CheckResult proof = plan::PlanChecker(spec_, whole.programs).check({1, 3});
  if (!proof.ok())
    base::fail(ErrorCode::InvalidArgument, path_, ": the plan is refused: ", proof.error->message);
  programs_ = std::make_shared<const std::vector<Program>>(std::move(whole.programs));
  info_ = infoFor(spec_, programs_, proof.measured);
}

std::shared_ptr<const AlgorithmFile> AlgorithmFile::read(const std::string& path) {
  return std::make_shared<const AlgorithmFile>(
      path, base::readText("the algorithm file", path, kMostFileBytes));
}

std::string AlgorithmFile::misfit(const plan::CollectiveRequest& request,
                                  const topology::Topology& topology) const {
  const auto hosts = plan::hostsInOrder(topology.hostOf);
  if (request.collective != spec_.collective)
    return base::message("is for ", plan::toString(spec_.collective));
  if (topology.ranks != spec_.ranks)
    return base::message("is for ", spec_.ranks, spec_.ranks == 1 ? " rank" : " ranks");
  if (plan::hasRoot(spec_.collective) && request.root != spec_.root)
    return base::message("is for root ", spec_.root);
  if (!spec_.hosts.empty() && spec_.hosts != hosts)
    return base::message("is for ranks on hosts ", plan::hostsToText(spec_.hosts));
  if (spec_.protocol == Protocol::Mapped && !hosts.empty())
    return "maps buffers, which ranks of several hosts cannot";
  if (spec_.protocol == Protocol::Mapped && !request.mappable)
    return "maps buffers, and those of this call are never mapped";
  if (spec_.protocol == Protocol::Mapped && request.op == ReduceOp::PreMulSum &&
      plan::isReduction(spec_.collective))
    return "maps buffers, which premulsum cannot";
  if (request.mayBeInPlace && !spec_.inPlaceSafe)
    return "is not safe in place, as calls on GPUs may be";
  if (request.uneven && !spec_.unevenSafe) return "is for blocks of one size";
  if (request.deterministic && plan::isReduction(spec_.collective) && !spec_.canonicalOrder)
    return "does not add in the canonical order";
  if (spec_.channels > topology.channels)
    return base::message("has ", spec_.channels, " channels, and two ranks have ",
                         topology.channels);
  if (spec_.messageChunks * uint64_t{plan::kChunkAlignment} > topology.slotBytes)
    return base::message("has messages of ", spec_.messageChunks, " chunks of at least ",
                         plan::kChunkAlignment, " bytes, and slots have ", topology.slotBytes);
  if (mostLanes_ > topology.lanes)
    return base::message("has ", mostLanes_, " lanes on a rank, and the blocks of a GPU hold ",
                         topology.lanes);
  if (mostOperands_ > topology.operands)
    return base::message("has a step of ", mostOperands_, " sources and targets, and GPUs take ",
                         topology.operands);
  return {};
}

const AlgorithmInfo& infoOf(const PlanSpec& spec, const AlgorithmFile* file) {
  return file && spec == file->spec() ? file->info() : registry().find(spec.algorithm);
}

Program build(const PlanSpec& spec, int rank, const AlgorithmFile* file) {
  return file && spec == file->spec() ? file->info().build(spec, rank) : build(spec, rank);
}

std::string whyNot(const std::string& name, const plan::CollectiveRequest& request,
                   const topology::Topology& topology, const AlgorithmFile* file) {
  if (name == kByFile) {
    if (!file)
      return "the algorithm file needs a file: name it by TUTTI_ALGORITHM_FILE or "
             "CommunicatorOptions::algorithmFile";
    const std::string misfit = file->misfit(request, topology);
    if (misfit.empty()) return {};
    return base::message("the algorithm file does not exist for ",
                         plan::toString(request.collective), " on ", topology.ranks,
                         " ranks: the plan of ", file->path(), " ", misfit);
  }
  if (exists(name, request.collective, topology.ranks, plan::hostsInOrder(topology.hostOf),
             request.uneven))
    return {};
  return base::message("the algorithm ", base::printable(name), " does not exist for ",
                       plan::toString(request.collective), " on ", topology.ranks,
                       " ranks; there are ", existingNames(request, topology));
}

}  // namespace tutti::collectives
