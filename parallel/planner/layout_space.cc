#include "parallel/planner/layout_space.h"

#include <algorithm>

#include "parallel/nn/tensor_parallel.h"

namespace tutti::parallel {

namespace {

constexpr int64_t kMostSequences = 8, kMostSequencesOfPipelines = 2;

std::vector<int> divisorsOf(int number, int most) {
  std::vector<int> divisors;
  for (int i = 1; i <= std::min(number, most); ++i)
    if (number % i == 0) divisors.push_back(i);
  return divisors;
}

std::pair<int64_t, int64_t> headsOf(const ModelOptions& model) {
  if (const auto* llama = std::get_if<LlamaOptions>(&model)) return {llama->heads, llama->kvHeads};
  const int64_t heads = std::get<GptOptions>(model).heads;
  return {heads, heads};
}

/// Whether so many ranks can share the heads out; then `mesh` has them.
bool cutsHeads(MeshShape& mesh, int ranks, const ModelOptions& model) {
  const auto [heads, kvHeads] = headsOf(model);
  if (heads % ranks != 0 || (kvHeads % ranks != 0 && ranks % kvHeads != 0)) return false;
  setTensorRanks(mesh, ranks, heads, kvHeads);
  return true;
}

/// Sequences of a step that each data-parallel rank has.
int64_t sequencesOf(const TrainingJob& job, const MeshShape& mesh) {
  return job.batch / mesh.ranks({Axis::Data, Axis::Fsdp});
}

/// Stage 0, where all are replicas, and the others with what divides a host's ranks, and all.
void addSharings(std::vector<LayoutFamily>& families, const MeshShape& mesh, int data,
                 int ofAHost) {
  LayoutFamily family{.mesh = mesh};
  family.mesh[Axis::Data] = data;
  families.push_back(family);
  std::vector<int> shards = divisorsOf(data, std::min(data - 1, ofAHost));
  shards.push_back(data);
  for (family.zero = 1; family.zero <= 3; ++family.zero)
    for (const int ranks : shards) {
      if (ranks == 1) continue;
      family.mesh[Axis::Fsdp] = ranks;
      family.mesh[Axis::Data] = data / ranks;
      families.push_back(family);
    }
}

bool suits(const TrainingLayout& layout, const ModelOptions& model) {
  const bool two =
      layout.schedule == ScheduleKind::Interleaved || layout.schedule == ScheduleKind::ZeroBubbleV;
  return layersOf(model) >= (two ? 2 : 1) * layout.mesh[Axis::Pipeline];
}

}  // namespace

int64_t layersOf(const ModelOptions& model) {
  return std::visit([](const auto& options) { return options.layers; }, model);
}

std::vector<LayoutFamily> familiesOf(const TrainingJob& job, const LayoutSpace& space) {
  std::vector<LayoutFamily> families;
  const int layers = static_cast<int>(std::min<int64_t>(layersOf(job.model), 128));
  for (const int tensor : divisorsOf(space.devices, space.ranksPerHost)) {
    MeshShape mesh;
    if (!cutsHeads(mesh, tensor, job.model)) continue;
    for (const int stages : divisorsOf(space.devices / tensor, layers)) {
      const int data = space.devices / tensor / stages;
      if (job.batch % data != 0) continue;
      mesh[Axis::Pipeline] = stages;
      addSharings(families, mesh, data, space.ranksPerHost / tensor);
    }
  }
  require(!families.empty(), "no layout of ", space.devices, " devices, at most ",
          space.ranksPerHost, " of a host, divides the model's heads and layers and a batch of ",
          job.batch, " sequences");
  return families;
}

TrainingLayout leanest(const TrainingJob& job, const LayoutFamily& family) {
  const int microBatches = static_cast<int>(sequencesOf(job, family.mesh));
  return {.mesh = family.mesh,
          .zero = family.zero,
          .sequenceParallel = family.mesh.ranks(kTensorAxes) > 1,
          .recompute = Recompute::Block,
          .microBatches = microBatches,
          .rounds = family.zero >= 2 ? microBatches : 1};
}

std::vector<TrainingLayout> membersOf(const TrainingJob& job, const LayoutFamily& family) {
  std::vector<TrainingLayout> members;
  const int stages = family.mesh[Axis::Pipeline];
  const int64_t sequences = sequencesOf(job, family.mesh);
  const int64_t most = stages > 1 ? kMostSequencesOfPipelines : kMostSequences;
  for (int64_t each = 1; each <= std::min(sequences, most); each *= 2) {
    // A pipeline that is never full idles more than it gains.
    if (sequences % each != 0 || (each > 1 && sequences / each < stages)) continue;
    TrainingLayout member = leanest(job, family);
    member.recompute = Recompute::None;
    member.microBatches = static_cast<int>(sequences / each);
    member.rounds = 1;
    members.push_back(member);
    member.reshard = Reshard::Never;
    if (family.zero == 3) members.push_back(member);
  }
  return members;
}

std::vector<TrainingLayout> variantsOf(const TrainingJob& job, const LayoutSpace& space,
                                       const TrainingLayout& layout) {
  std::vector<TrainingLayout> variants;
  const bool pipelined = layout.mesh[Axis::Pipeline] > 1;
  const std::vector<ScheduleKind> one{ScheduleKind::OneFOneB};
  for (const ScheduleKind schedule : pipelined ? space.schedules : one)
    for (const bool sequence : {true, false}) {
      TrainingLayout variant = layout;
      variant.schedule = schedule;
      variant.sequenceParallel = sequence && layout.mesh.ranks(kTensorAxes) > 1;
      variant.recompute = Recompute::None;
      variant.rounds = 1;
      if (sequence != variant.sequenceParallel && sequence) continue;
      if (suits(variant, job.model)) variants.push_back(variant);
    }
  return variants;
}

std::vector<TrainingLayout> leaner(const TrainingLayout& layout) {
  std::vector<TrainingLayout> all;
  std::vector<int> rounds{1};
  if (layout.zero >= 2 && layout.microBatches > 1) rounds.push_back(layout.microBatches);
  for (const int count : rounds)
    for (const Recompute recompute : {Recompute::None, Recompute::Attention, Recompute::Block}) {
      all.push_back(layout);
      all.back().rounds = count;
      all.back().recompute = recompute;
    }
  return all;
}

}  // namespace tutti::parallel
