#include "parallel/planner/layout_space.h"

#include <algorithm>

#include "parallel/nn/tensor_parallel.h"

namespace tutti::parallel {

namespace {

constexpr int64_t kMostSequences = 8;
// Over more, shares are no smaller than what a rank holds anyway, and collectives longer.
constexpr int kMostShares = 128;

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
  return job.batch / mesh.ranks({Axis::Data, Axis::Fsdp, Axis::Expert});
}

/// Over how many of the data-parallel ranks state is shared out.
std::vector<int> sharesOf(int data, int ofAHost) {
  if (data <= ofAHost) return divisorsOf(data, data);
  std::vector<int> shares{divisorsOf(data, kMostShares).back()};
  if (data % ofAHost == 0 && ofAHost < shares[0]) shares.push_back(ofAHost);
  return shares;
}

int64_t expertsOf(const ModelOptions& model) {
  return std::visit([](const auto& options) { return options.experts.count; }, model);
}

/// By how many ranks along cp and ep, of `ranks` in all, tp and pp of `mesh` can be joined.
std::vector<MeshShape> joinedByTokens(const MeshShape& mesh, const TrainingJob& job, int ranks,
                                      int64_t leastTokens) {
  std::vector<MeshShape> meshes;
  const int64_t experts = std::max<int64_t>(expertsOf(job.model), 1);
  for (const int context : divisorsOf(ranks, ranks)) {
    if (context > 1 && job.context / context < leastTokens) continue;
    for (const int expert : divisorsOf(ranks / context, ranks)) {
      if (experts % expert != 0 || job.batch % (ranks / context) != 0) continue;
      meshes.push_back(mesh);
      meshes.back()[Axis::Context] = context;
      meshes.back()[Axis::Expert] = expert;
    }
  }
  return meshes;
}

/// All ranks that `mesh` does not have yet are data-parallel.
void addSharings(std::vector<LayoutFamily>& families, const MeshShape& mesh,
                 const LayoutSpace& space) {
  const int data = space.devices / mesh.ranks();
  const int ofAHost = std::max(1, space.ranksPerHost / mesh.ranks(kTensorAxes | kTokenAxes));
  LayoutFamily family{.mesh = mesh};
  family.mesh[Axis::Data] = data;
  families.push_back(family);
  for (family.zero = 1; family.zero <= 3; family.zero += 2)
    for (const int ranks : sharesOf(data, ofAHost)) {
      if (ranks == 1) continue;
      family.mesh[Axis::Fsdp] = ranks;
      family.mesh[Axis::Data] = data / ranks;
      families.push_back(family);
    }
}

// The order of ZB-V is searched for, which takes longer the more there is to order.
constexpr int kMostOfZbV = 512;

bool suits(const TrainingLayout& layout, const ModelOptions& model) {
  if (layout.schedule == ScheduleKind::ZeroBubbleV &&
      layout.mesh[Axis::Pipeline] * layout.microBatches > kMostOfZbV)
    return false;
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
      mesh[Axis::Pipeline] = stages;
      const int others = space.devices / tensor / stages;
      for (const MeshShape& joined : joinedByTokens(mesh, job, others, space.leastTokens))
        addSharings(families, joined, space);
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
  const int64_t sequences = sequencesOf(job, family.mesh);
  const int64_t most = family.mesh[Axis::Pipeline] > 1 ? 1 : kMostSequences;
  for (int64_t each = 1; each <= std::min(sequences, most); each *= 2) {
    if (sequences % each != 0) continue;
    TrainingLayout member = leanest(job, family);
    member.recompute = Recompute::None;
    member.microBatches = static_cast<int>(sequences / each);
    member.rounds = 1;
    members.push_back(member);
  }
  return members;
}

std::vector<TrainingLayout> variantsOf(const TrainingJob& job, const LayoutSpace& space,
                                       const TrainingLayout& layout) {
  TrainingLayout base = layout;
  base.recompute = Recompute::None;
  base.rounds = 1;
  std::vector<TrainingLayout> variants;
  const auto add = [&](auto change) {
    TrainingLayout variant = base;
    change(variant);
    if (!(variant == base) && suits(variant, job.model)) variants.push_back(variant);
  };
  const int stages = layout.mesh[Axis::Pipeline];
  if (stages > 1)
    for (const ScheduleKind schedule : space.schedules)
      add([&](TrainingLayout& l) { l.schedule = schedule; });
  add([](TrainingLayout& l) { l.sequenceParallel = false; });
  if (layout.mesh[Axis::Context] > 1)
    add([](TrainingLayout& l) { l.contextAttention = ContextAttention::Heads; });
  if (layout.zero == 1) add([](TrainingLayout& l) { l.zero = 2; });
  if (layout.zero == 3) add([](TrainingLayout& l) { l.reshard = Reshard::Never; });
  // A pipeline that is never full idles more than it gains.
  if (stages > 1 && layout.microBatches % 2 == 0 && layout.microBatches / 2 >= stages)
    add([](TrainingLayout& l) { l.microBatches /= 2; });
  return variants;
}

std::vector<int> roundsOf(const TrainingLayout& layout) {
  if (layout.zero < 2 || layout.microBatches == 1) return {1};
  return {1, layout.microBatches};
}

}  // namespace tutti::parallel
