#include "parallel/store/shard_policy.h"

namespace tutti::parallel {

StoreTypes::StoreTypes(DType all) : weights(all), master(all), gradients(all) {
  if (isNarrow(all)) master = gradients = DType::Float32;
}

ShardPolicy ShardPolicy::zero(int stage) {
  require(stage >= 0 && stage <= 3, "ZeRO has the stages 0 to 3, not ", stage);
  return {.optimizer = stage >= 1, .gradients = stage >= 2, .parameters = stage >= 3};
}

void ShardPolicy::check() const {
  require(optimizer || !gradients,
          "a policy that shares out gradients has to share out the optimizer's state too");
  require(gradients || !parameters,
          "a policy that shares out parameters has to share out gradients too");
  require(gradients || offload.gradients == Place::Device,
          "a policy can put gradients elsewhere only if it shares them out");
  require(parameters || offload.parameters == Place::Device,
          "a policy can put parameters elsewhere only if it shares them out");
  for (const Place place : {offload.optimizer, offload.gradients, offload.parameters})
    require(place != Place::File || !offload.folder.empty(),
            "a policy puts state into files and names no folder for them");
  require(offload.partBytes >= sizeof(double), "a policy updates state in parts of ",
          offload.partBytes, " bytes of a tensor, and an element may have ", sizeof(double));
  require(reshard.backwards >= 1, "weights are given back after ", reshard.backwards,
          " backward passes: it takes at least 1");
  for (int outer = 0; outer < kAxisCount; ++outer) {
    const auto axis = static_cast<Axis>(outer);
    if (!shard.contains(axis)) continue;
    require(!replicate.contains(axis), "the policy both shares out and replicates over ",
            toString(axis));
    for (int inner = outer + 1; inner < kAxisCount; ++inner)
      require(!deterministic || !optimizer || !replicate.contains(static_cast<Axis>(inner)),
              "in deterministic mode a policy cannot share out over ", toString(axis),
              " and replicate over ", toString(static_cast<Axis>(inner)),
              ", whose ranks are nearer to each other");
  }
}

}  // namespace tutti::parallel
