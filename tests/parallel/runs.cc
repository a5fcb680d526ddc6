#include "tests/parallel/runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "parallel/kernels/host/host_kernels.h"

namespace tutti::parallel {

namespace {

/// What one rank holds of one parameter.
struct Part {
  Box box;
  std::vector<char> weight, gradient;
};

struct RankRun {
  RunResult result;
  std::vector<Part> parts;
  std::vector<Shape> shapes;
  size_t weightSize = 0, gradientSize = 0;  // of an element
};

std::vector<char> bytesOf(const Tensor& tensor) {
  const char* data = static_cast<const char*>(tensor.data);
  return {data, data + tensor.bytes()};
}

size_t memoryHeld(Engine& engine) {
  return engine.scratch().growths() + engine.saved().untilWeights.growths() +
         engine.store().memory().total();
}

/// One rank's whole run.
RankRun train(DeviceMesh mesh, const RunOptions& o) {
  HostKernels kernels;
  Gpt model(o.model);
  Engine engine(mesh, kernels, model,
                {.policy = o.policy,
                 .types = o.types,
                 .reductionGroups = o.groups,
                 .rounds = o.rounds,
                 .clipNorm = o.clip,
                 .seed = kRunSeed});
  const auto text = makeText();
  Loader loader(text, o.model.context, kSmallBatch, kRunSeed);
  const auto optimizer = o.adam ? makeAdamW({}) : makeSgd({});
  RankRun run;
  RunResult& result = run.result;
  size_t held = 0;
  const int64_t first = o.loadFrom.empty() ? 0 : engine.load(o.loadFrom, *optimizer);
  for (int64_t step = first; step < first + o.steps; ++step) {
    const StepReport report = engine.step(loader, step, *optimizer, o.adam ? 0.003 : 0.5);
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradientNorm);
    result.counters = report.counters;
    engine.store().checkReplicas();
    if (step == first + 1) held = memoryHeld(engine);
  }
  if (o.steps > 1) {
    EXPECT_EQ(memoryHeld(engine), held) << "a later step took more memory";
  }
  if (!o.saveTo.empty()) engine.save(o.saveTo, first + o.steps, *optimizer);
  ParameterStore& store = engine.store();
  for (size_t p = 0; p < store.parameterCount(); ++p) {
    const Parameter& parameter = store.parameter(p);
    run.parts.push_back(
        {store.box(parameter), bytesOf(store.master(parameter)),
         o.steps > 0 ? bytesOf(store.finishedGradient(parameter)) : std::vector<char>()});
    run.shapes.push_back(parameter.global);
  }
  run.weightSize = sizeOf(o.types.master);
  run.gradientSize = sizeOf(o.types.gradients);
  Windows windows(text, o.model.context);
  result.memory = store.memory();
  result.validation = engine.evaluate(windows, 16);
  result.scratchBytes = engine.scratch().usedBytes();
  result.savedBytes =
      engine.saved().untilBackward.usedBytes() + engine.saved().untilWeights.usedBytes();
  return run;
}

/// Puts a part where it belongs in the whole.
void place(const std::vector<char>& part, const Box& box, const Shape& global, size_t elementSize,
           std::vector<char>& whole, std::vector<char>& seen) {
  whole.resize(static_cast<size_t>(global.count()) * elementSize);
  seen.resize(whole.size());
  forEachRun(box, wholeOf(global), [&](const BoxRun& run) {
    const size_t from = static_cast<size_t>(run.from) * elementSize,
                 to = static_cast<size_t>(run.to) * elementSize;
    for (size_t i = 0; i < static_cast<size_t>(run.count) * elementSize; ++i) {
      if (seen[to + i] != 0 && whole[to + i] != part[from + i]) {
        ADD_FAILURE() << "what two ranks hold of the same elements differs";
        return;
      }
      whole[to + i] = part[from + i];
      seen[to + i] = 1;
    }
  });
}

Values together(const std::vector<RankRun>& runs, std::vector<char> Part::*what,
                size_t RankRun::*elementSize) {
  Values all(runs[0].parts.size());
  for (size_t p = 0; p < all.size(); ++p) {
    std::vector<char> seen;
    for (const RankRun& run : runs)
      place(run.parts[p].*what, run.parts[p].box, run.shapes[p], run.*elementSize, all[p], seen);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0) << "parameter " << p << " has gaps";
  }
  return all;
}

double norm(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value * value;
  return std::sqrt(total);
}

std::vector<double> doubles(const std::vector<char>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

std::vector<uint8_t> makeText() {
  std::vector<uint8_t> text(6000);
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<uint8_t>('a' + (i * i + i / 7) % 26);
  return text;
}

ShardPolicy RunOptions::smallBuckets(ShardPolicy policy) {
  policy.firstBucketBytes = 1000;
  policy.bucketBytes = 40000;
  return policy;
}

std::vector<RunResult> run(const RunOptions& o) {
  host::setBlasThreads(1);
  std::vector<RankRun> runs;
  if (o.mesh.ranks() == 1) {
    runs.push_back(train(DeviceMesh(), o));
  } else {
    runs = onRanks(o.mesh, o.policy.deterministic,
                   [&](DeviceMesh mesh) { return train(std::move(mesh), o); });
  }
  std::vector<RunResult> results;
  const Values weights = together(runs, &Part::weight, &RankRun::weightSize);
  const Values gradients =
      o.steps > 0 ? together(runs, &Part::gradient, &RankRun::gradientSize) : Values();
  for (RankRun& rank : runs) {
    results.push_back(std::move(rank.result));
    RunResult& result = results.back();
    result.weights = weights;
    result.gradients = gradients;
    EXPECT_EQ(result.losses, results[0].losses);
    EXPECT_EQ(result.norms, results[0].norms);
    EXPECT_EQ(result.validation, results[0].validation);
    EXPECT_EQ(result.scratchBytes, 0u);
    EXPECT_EQ(result.savedBytes, 0u);
  }
  return results;
}

double worstDifference(const Values& one, const Values& many) {
  std::vector<double> norms;
  for (const auto& gradient : one) norms.push_back(norm(doubles(gradient)));
  auto sorted = norms;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  double worst = 0;
  for (size_t p = 0; p < norms.size(); ++p) {
    std::vector<double> difference = doubles(one[p]);
    const std::vector<double> other = doubles(many[p]);
    for (size_t i = 0; i < difference.size(); ++i) difference[i] -= other[i];
    worst = std::max(worst, norm(difference) / std::max(norms[p], 1e-3 * *middle));
  }
  return worst;
}

}  // namespace tutti::parallel
