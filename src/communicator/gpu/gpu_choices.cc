#include "src/communicator/gpu/gpu_choices.h"

#include <algorithm>

#include "collectives/chooser.h"
#include "src/base/log.h"
#include "src/communicator/request.h"

namespace tutti::communicator {
namespace {

// Above this, plans that address the peers' buffers move fewer bytes than those by slots; below it,
// the exchange of entries costs more than that is worth. Not measured.
constexpr uint64_t kLeastMappedBytes = 64 << 10;

// Of GPUs joined by NVLink; not measured.
topology::Tuning gpuTuning() {
  topology::Tuning tuning;
  tuning.messageMicroseconds = 1.5;
  tuning.callMicroseconds = 0;  // the same for all plans
  tuning.stepMicroseconds = 0.5;
  tuning.copyGigabytesPerSecond = 200;
  tuning.reduceGigabytesPerSecond = 400;
  tuning.mappedGigabytesPerSecond = 300;
  tuning.entryMicroseconds = 0.2;
  tuning.yieldMicroseconds = 0;
  return tuning;
}

/// As many parts of this size as there is room for: each has a block of the GPU to itself, and a
/// channel.
constexpr uint64_t kSliceBytes = 64 << 10;

/// The same on all ranks.
uint32_t slicesFor(const plan::PlanSpec& spec, const plan::ProgramOf& programOf, uint64_t bytes,
                   const GpuFacts& gpu) {
  size_t lanes = 1;
  for (int rank = 0; rank < spec.ranks; ++rank)
    lanes = std::max(lanes, programOf(rank).lanes.size());
  const auto channels = static_cast<uint64_t>(gpu.channels / spec.channels);
  return static_cast<uint32_t>(std::clamp<uint64_t>(
      bytes / kSliceBytes, 1, std::min(channels, std::max<uint64_t>(gpu.blocks / lanes, 1))));
}

}  // namespace

const GpuChoice& GpuChoices::choose(const CallFacts& facts, const CallWishes& wishes,
                                    GpuRank& rank) {
  GpuFacts gpu = rank.facts();
  if (wishes.mostBlocks > 0) gpu.blocks = std::min(gpu.blocks, wishes.mostBlocks);
  const int size = who_.size();
  const uint64_t key = choiceKey(facts, size, wishNumbers_.numberOf(wishes));
  if (const auto known = choices_.find(key); known != choices_.end()) return known->second;
  const topology::Topology joined{.ranks = size,
                                  .cores = size,
                                  .hostOf = links_.topology().hostOf,
                                  .slotBytes = gpu.slotBytes,
                                  .channels = gpu.channels,
                                  .lanes = gpu.lanes,
                                  .operands = gpu.operands,
                                  .apart = gpu.apart};
  const plan::CollectiveRequest request = requestOf(
      facts, settings_, wishes, joined,
      {.leastBlockBytes = gpu.canMap ? kLeastMappedBytes : UINT64_MAX, .mayBeInPlace = true});
  const uint64_t bytes = request.blockBytes();
  const collectives::AlgorithmFile* const file = settings_.algorithmFile.get();
  const collectives::Choice choice = collectives::choose(request, joined, gpuTuning(), file);
  GpuChoice made;
  made.spec = choice.mapped && size > 1 ? *choice.mapped : choice.spec;
  made.hash = made.spec.hash();
  const auto programOf = [&](int other) { return collectives::build(made.spec, other, file); };
  auto& plan = plans_[made.hash];
  if (!plan) plan = rank.executor().prepare(made.spec, programOf);
  made.plan = plan.get();
  made.slices = slicesFor(made.spec, programOf, plan::mostBlocksOf(made.spec) * bytes, gpu);
  base::log(LogLevel::Debug, who_.self(), ": on ", toString(settings_.device),
            " for blocks of up to ", bytes, " bytes: ", made.spec.describe());
  return choices_.emplace(key, made).first->second;
}

}  // namespace tutti::communicator
