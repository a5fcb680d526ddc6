#include "parallel/dry/dry_run.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace tutti::parallel {

namespace {

using Collectives = std::map<AxisSet, CollectiveCounters>;

Collectives since(const Collectives& before, const Collectives& now) {
  Collectives result;
  for (const auto& [axes, count] : now) {
    const auto found = before.find(axes);
    const CollectiveCounters step = found == before.end() ? count : count.since(found->second);
    if (step != CollectiveCounters{}) result[axes] = step;
  }
  return result;
}

std::string bytesText(size_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (value < 1e6)
    std::snprintf(text, sizeof(text), "%.1f kB", value / 1e3);
  else if (value < 1e9)
    std::snprintf(text, sizeof(text), "%.1f MB", value / 1e6);
  else
    std::snprintf(text, sizeof(text), "%.2f GB", value / 1e9);
  return text;
}

/// "  master weights   28.00 GB", and nothing where there are none.
std::string line(const std::string& what, size_t bytes, const std::string& more = "") {
  if (bytes == 0) return "";
  std::string text = "  " + what;
  text.resize(std::max<size_t>(text.size() + 1, 32), ' ');
  return text + bytesText(bytes) + more + "\n";
}

std::string calls(const CollectiveCount& count) {
  return message(", ", count.calls, count.calls == 1 ? " call" : " calls");
}

}  // namespace

KernelCount DryRun::allKernels() const {
  KernelCount all;
  for (const auto& [name, count] : kernels) all += count;
  return all;
}

std::string DryRun::describe() const {
  const StoreMemory& store = memory.store;
  std::string text = message("holds ", bytesText(memory.total()), "\n");
  text += line("weights", store.weights);
  text += line("master weights", store.masters);
  text += line("gradients", store.gradients);
  text += line("gradients, added", store.gradientShards);
  text += line("optimizer", store.optimizer);
  text += line("staging", store.staging);
  text += line("until backward", memory.untilBackward.peak);
  text += line("until weights", memory.untilWeights.peak);
  text += line("scratch", memory.scratch.peak);
  text += "sends in a step\n";
  for (const auto& [axes, count] : collectives) {
    const std::string along = " along " + axes.describe();
    text += line("AllReduce" + along, count.allReduce.bytes, calls(count.allReduce));
    text += line("ReduceScatter" + along, count.reduceScatter.bytes, calls(count.reduceScatter));
    text += line("AllGather" + along, count.allGather.bytes, calls(count.allGather));
    text += line("AllToAll" + along, count.allToAll.bytes, calls(count.allToAll));
  }
  const KernelCount all = allKernels();
  char computed[96];
  std::snprintf(computed, sizeof(computed),
                "computes %.4g GFLOP in matrix products, in %lld calls\n", all.gemmFlops / 1e9,
                static_cast<long long>(all.calls));
  return text + computed;
}

DryRun dryRun(const DryRunArgs& args, Module& model, Optimizer& optimizer) {
  DeviceMesh mesh = DeviceMesh::dry(args.mesh, args.rank);
  DryKernels kernels;
  Engine engine(mesh, kernels, model, args.engine);
  const std::vector<uint8_t> anyText(static_cast<size_t>(args.context) + 2);
  Loader loader(anyText, args.context, args.batch, args.engine.seed);
  engine.step(loader, 0, optimizer, 0);
  kernels.reset();
  const Collectives before = mesh.counters();
  const StepReport report = engine.step(loader, 1, optimizer, 0);
  return {.parameters = engine.store().elementCount(),
          .memory = engine.memory(),
          .counters = report.counters,
          .collectives = since(before, mesh.counters()),
          .kernels = kernels.counts()};
}

}  // namespace tutti::parallel
