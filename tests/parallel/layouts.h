#pragma once

// The presets of the store, over so many ranks, with buckets of a size that fits small models.

#include <string>
#include <vector>

#include "tests/parallel/runs.h"

namespace tutti::parallel {

struct Arrangement {
  std::string name;
  MeshShape mesh;
  ShardPolicy policy;
};

inline MeshShape mesh(int replicas, int shards) {
  MeshShape shape;
  shape[Axis::Data] = replicas;
  shape[Axis::Fsdp] = shards;
  return shape;
}

inline ShardPolicy zero(int stage) { return RunOptions::smallBuckets(ShardPolicy::zero(stage)); }

inline ShardPolicy fsdp(Reshard::When when, int backwards = 1) {
  ShardPolicy policy = zero(3);
  policy.reshard = {when, backwards};
  return policy;
}

/// Every preset over `ranks`, and hybrids where they divide.
inline std::vector<Arrangement> layouts(int ranks) {
  std::vector<Arrangement> all;
  for (int stage = 0; stage <= 3; ++stage)
    all.push_back({message("zero ", stage, ", fsdp=", ranks), mesh(1, ranks), zero(stage)});
  all.push_back(
      {message("fsdp that never reshards, fsdp=", ranks), mesh(1, ranks), fsdp(Reshard::Never)});
  all.push_back({message("fsdp that reshards after 2 backwards, fsdp=", ranks), mesh(1, ranks),
                 fsdp(Reshard::AfterBackward, 2)});
  if (ranks % 2 == 0 && ranks > 2)
    for (int stage = 0; stage <= 3; ++stage)
      all.push_back({message("hybrid zero ", stage, ", dp=2,fsdp=", ranks / 2), mesh(2, ranks / 2),
                     zero(stage)});
  return all;
}

}  // namespace tutti::parallel
