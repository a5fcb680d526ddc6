#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {

namespace {

std::string describe(const ShardPolicy& policy) {
  const int stage = policy.optimizer + policy.gradients + policy.parameters;
  if (stage == 0) return "";
  const std::string text = message(", zero ", stage);
  if (policy.reshard.when == Reshard::Never) return text + ", no reshard";
  if (policy.reshard.when == Reshard::AfterForward) return text;
  const int backwards = policy.reshard.backwards;
  return message(text, ", reshard after ", backwards, backwards == 1 ? " backward" : " backwards");
}

}  // namespace

MeshShape mesh(int replicas, int shards) {
  MeshShape shape;
  shape[Axis::Data] = replicas;
  shape[Axis::Fsdp] = shards;
  return shape;
}

ShardPolicy zero(int stage) { return RunOptions::smallBuckets(ShardPolicy::zero(stage)); }

ShardPolicy fsdp(Reshard::When when, int backwards) {
  ShardPolicy policy = zero(3);
  policy.reshard = {when, backwards};
  return policy;
}

Arrangement arrangement(const std::string& mesh, const ShardPolicy& policy, bool sequence) {
  const MeshShape shape = MeshShape::parse(mesh);
  return {shape.describe() + describe(policy) + (sequence ? ", sequence parallel" : ""), shape,
          policy, sequence};
}

Arrangement piped(Arrangement layout, const PipelineOptions& pipeline) {
  layout.pipeline = pipeline;
  layout.name += message(", ", toString(pipeline.schedule));
  if (pipeline.chunks > 0) layout.name += message(" of ", pipeline.chunks, " chunks");
  for (size_t i = 0; i < pipeline.layers.size(); ++i)
    layout.name += message(i == 0 ? ", layers " : " ", pipeline.layers[i]);
  return layout;
}

Arrangement exchanging(Arrangement layout) {
  layout.attention = ContextAttention::Heads;
  layout.name += ", heads exchanged";
  return layout;
}

ModelOptions sequenceParallel(ModelOptions model) {
  std::visit([](auto& options) { options.sequenceParallel = true; }, model);
  return model;
}

ModelOptions cut(const Arrangement& layout, ModelOptions model) {
  std::visit([&](auto& options) { options.contextAttention = layout.attention; }, model);
  return layout.sequence ? sequenceParallel(model) : model;
}

RunOptions under(const Arrangement& layout, RunOptions options) {
  const bool deterministic = options.policy.deterministic;
  options.mesh = layout.mesh;
  options.policy = layout.policy;
  options.pipeline = layout.pipeline;
  options.policy.deterministic = deterministic;
  options.model = cut(layout, options.model);
  return options;
}

std::vector<Arrangement> sharings(const std::string& mesh, bool sequence) {
  std::vector<Arrangement> all;
  for (int stage = 1; stage <= 3; ++stage) all.push_back(arrangement(mesh, zero(stage), sequence));
  all.push_back(arrangement(mesh, fsdp(Reshard::Never), sequence));
  return all;
}

std::vector<Arrangement> hybrids(const std::string& mesh) {
  std::vector<Arrangement> all{arrangement(mesh)};
  for (const Arrangement& shared : sharings(mesh)) all.push_back(shared);
  all.push_back(arrangement(mesh, fsdp(Reshard::AfterBackward)));
  return all;
}

std::vector<Arrangement> layouts(int ranks) {
  const std::string shards = message("fsdp=", ranks);
  std::vector<Arrangement> all{arrangement(message("dp=", ranks)), arrangement(shards)};
  for (const Arrangement& shared : sharings(shards)) all.push_back(shared);
  all.push_back(arrangement(shards, fsdp(Reshard::AfterBackward, 2)));
  for (const int replicas : {2, 3, 4})
    if (ranks % replicas == 0 && ranks > replicas)
      for (const Arrangement& hybrid :
           hybrids(message("dp=", replicas, ",fsdp=", ranks / replicas)))
        all.push_back(hybrid);
  return all;
}

std::vector<Arrangement> layoutsOfEachKind(const std::string& heads) {
  std::vector<Arrangement> all{arrangement("dp=2"), arrangement("dp=4")};
  for (const Arrangement& shared : sharings("fsdp=4")) all.push_back(shared);
  all.push_back(arrangement("fsdp=2", fsdp(Reshard::AfterBackward, 2)));
  for (const Arrangement& hybrid : hybrids("dp=2,fsdp=2")) all.push_back(hybrid);
  for (const bool sequence : {false, true}) {
    all.push_back(arrangement("tp=2", zero(0), sequence));
    all.push_back(arrangement(heads, zero(0), sequence));
    all.push_back(arrangement("dp=2," + heads, zero(0), sequence));
    for (const Arrangement& shared : sharings("fsdp=2,tp=2", sequence)) all.push_back(shared);
    all.push_back(arrangement("dp=2,fsdp=2,tp=2", zero(3), sequence));
    all.push_back(arrangement("ep=2,tp=2", zero(0), sequence));
  }
  for (const Arrangement& layout : {arrangement("cp=2"), arrangement("fsdp=2,cp=2", zero(3)),
                                    arrangement("cp=2,tp=2", zero(0), true)}) {
    all.push_back(layout);
    all.push_back(exchanging(layout));
  }
  all.push_back(arrangement("ep=2"));
  all.push_back(arrangement("fsdp=2,ep=2", zero(3)));
  return all;
}

}  // namespace tutti::parallel
