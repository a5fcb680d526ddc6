#include "parallel/dry/dry_run.h"

#include <vector>

namespace tutti::parallel {

KernelCount DryRun::allKernels() const {
  KernelCount all;
  for (const auto& [name, count] : kernels) all += count;
  return all;
}

DryRun dryRun(const DryRunArgs& args, Model& model, Optimizer& optimizer) {
  DeviceMesh mesh = DeviceMesh::dry(args.mesh, args.rank, args.device);
  DryKernels kernels(args.device);
  Engine engine(mesh, kernels, model, args.engine);
  const std::vector<uint8_t> anyText(static_cast<size_t>(args.context) + 2);
  Loader loader(anyText, args.context, args.batch, args.engine.seed);
  engine.step(loader, 0, optimizer, 0);
  kernels.reset();
  const Collectives before = mesh.counters();
  const auto calls = args.calls ? mesh.recordCalls() : std::make_shared<const IssueOrder>();
  const StepReport report = engine.step(loader, 1, optimizer, 0);
  return {.parameters = engine.store().elementCount(),
          .memory = engine.memory(),
          .counters = report.counters,
          .tensor = report.tensor,
          .collectives = since(before, mesh.counters()),
          .kernels = kernels.counts(),
          .calls = *calls};
}

}  // namespace tutti::parallel
