#include "tests/parallel/support/runs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "parallel/kernels/host/host_kernels.h"

namespace tutti::parallel {

namespace {

struct RankRun {
  RunResult result;
  std::vector<StoredPart> parts;
};

std::vector<char> bytesOf(const Tensor& tensor, const DeviceMesh& mesh) {
  std::vector<char> bytes(tensor.bytes());
  mesh.download(tensor, bytes.data());
  return bytes;
}

size_t memoryHeld(Engine& engine) {
  const TrainingMemory memory = engine.memory();
  return memory.scratch.held + memory.untilWeights.held + memory.untilBackward.held +
         memory.between + memory.store.total();
}

/// One rank's whole run.
RankRun train(DeviceMesh& mesh, const RunOptions& o) {
  const auto kernels = o.gpuKernels ? o.gpuKernels(mesh) : std::make_unique<HostKernels>();
  const auto model = makeModel(o.model);
  Engine engine(mesh, *kernels, *model,
                {.policy = o.policy,
                 .types = o.types,
                 .reductionGroups = o.groups,
                 .rounds = o.rounds,
                 .clipNorm = o.clip,
                 .seed = o.seed,
                 .lossScaling = o.lossScaling,
                 .pipeline = o.pipeline});
  const auto text = makeText();
  Loader loader = makeLoader(text, o);
  const auto optimizer = o.adam ? makeAdamW({}) : makeSgd({});
  RankRun run;
  RunResult& result = run.result;
  size_t held = 0;
  const int64_t first = o.loadFrom.empty() ? 0 : engine.load(o.loadFrom, *optimizer);
  if (o.afterLoad) o.afterLoad(engine.store(), *optimizer);
  for (int64_t step = first; step < first + o.steps; ++step) {
    const StepReport report = engine.step(loader, step, *optimizer, o.adam ? 0.003 : kSgdRate);
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradientNorm);
    result.counters = report.counters;
    result.tensor = report.tensor;
    result.experts = report.experts;
    result.router = report.router;
    engine.store().checkReplicas();
    if (step == first + 1) held = memoryHeld(engine);
  }
  ensure(o.steps <= 1 || memoryHeld(engine) == held, "a later step took more memory");
  if (!o.saveTo.empty()) engine.save(o.saveTo, first + o.steps, *optimizer);
  run.parts = storedParts(engine.store(), o.steps > 0, mesh);
  for (const Parameter* parameter : engine.store().declared())
    if (parameter->tiedTo == nullptr) result.names.push_back(parameter->name);
  const Documents documents(makeDocuments(), contextOf(o.model));
  auto validation = text;
  if (o.validationBytes > 0) validation.resize(o.validationBytes);
  Windows windows =
      o.documents ? Windows(text, documents) : Windows(validation, contextOf(o.model));
  result.memory = engine.store().memory();
  result.validation = engine.evaluate(windows, 16);
  result.scratchBytes = engine.scratch().usedBytes();
  result.savedBytes = engine.pipeline().usedBytes();
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
      ensure(seen[to + i] == 0 || whole[to + i] == part[from + i],
             "what two ranks hold of the same elements differs");
      whole[to + i] = part[from + i];
      seen[to + i] = 1;
    }
  });
}

/// Of each rank.
std::vector<Device> devicesOf(const RunOptions& o) {
  std::vector<Device> devices(static_cast<size_t>(o.mesh.ranks()));
  if (!o.gpuKernels) return devices;
  const int count = deviceCount(DeviceKind::Cuda);
  for (int rank = 0; rank < o.mesh.ranks(); ++rank)
    devices[static_cast<size_t>(rank)] = {DeviceKind::Cuda, rank % count};
  return devices;
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

std::vector<StoredPart> storedParts(ParameterStore& store, bool gradients, const DeviceMesh& mesh) {
  std::vector<StoredPart> parts;
  for (size_t p = 0; p < store.parameterCount(); ++p) {
    const Parameter& parameter = store.parameter(p);
    const Parameter* const whole = parameter.tiedTo == nullptr ? &parameter : parameter.tiedTo;
    const auto place = std::find(store.declared().begin(), store.declared().end(), whole);
    parts.push_back(
        {parameter.name, static_cast<size_t>(place - store.declared().begin()), parameter.global,
         store.box(parameter), bytesOf(store.master(parameter), mesh),
         gradients ? bytesOf(store.finishedGradient(parameter), mesh) : std::vector<char>()});
  }
  return parts;
}

Values wholeValues(const std::vector<std::vector<StoredPart>>& ranks,
                   std::vector<char> StoredPart::*what) {
  std::map<size_t, std::vector<const StoredPart*>> parameters;
  for (const auto& parts : ranks)
    for (const StoredPart& part : parts) parameters[part.order].push_back(&part);
  Values all;
  for (const auto& [order, parts] : parameters) {
    std::vector<char> seen;
    size_t elementSize = 0;
    for (const StoredPart* part : parts)
      if (const int64_t count = extentsOf(part->box).count(); count > 0)
        elementSize = (part->*what).size() / static_cast<size_t>(count);
    all.emplace_back();
    for (const StoredPart* part : parts)
      place(part->*what, part->box, part->global, elementSize, all.back(), seen);
    ensure(std::count(seen.begin(), seen.end(), 0) == 0, parts[0]->name, " has gaps");
  }
  return all;
}

std::vector<uint8_t> makeText() {
  std::vector<uint8_t> text(6000);
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<uint8_t>('a' + (i * i + i / 7) % 26);
  return text;
}

std::vector<Document> makeDocuments() {
  std::vector<Document> documents;
  const auto size = static_cast<int64_t>(makeText().size());
  for (int64_t i = 0, begin = 0; begin < size; ++i) {
    const int64_t length = std::min(size - begin, 1 + (7 * i * i + 3 * i) % 61);
    const int64_t prompt = i % 3 == 0 ? 0 : i % 3 == 1 ? length / 2 : length - 2;
    documents.push_back({begin, begin + length, std::max<int64_t>(prompt, 0)});
    begin += length;
  }
  return documents;
}

Loader makeLoader(const std::vector<uint8_t>& text, const RunOptions& o) {
  const int64_t context = contextOf(o.model);
  return o.documents ? Loader(text, Documents(makeDocuments(), context), o.batch, o.seed)
                     : Loader(text, context, o.batch, o.seed);
}

ShardPolicy RunOptions::smallBuckets(ShardPolicy policy) {
  policy.firstBucketBytes = 1000;
  policy.bucketBytes = 40000;
  return policy;
}

std::vector<RunResult> run(const RunOptions& o) {
  host::setBlasThreads(1);
  std::vector<RankRun> runs;
  const std::vector<Device> devices = devicesOf(o);
  if (o.mesh.ranks() == 1) {
    DeviceMesh alone(devices[0]);
    runs.push_back(train(alone, o));
  } else {
    runs = onRanks(
        o.mesh, o.policy.deterministic, [&](DeviceMesh& mesh) { return train(mesh, o); }, devices);
  }
  std::vector<RunResult> results;
  std::vector<std::vector<StoredPart>> parts;
  for (RankRun& rank : runs) parts.push_back(std::move(rank.parts));
  const Values weights = wholeValues(parts, &StoredPart::weight);
  const Values gradients = o.steps > 0 ? wholeValues(parts, &StoredPart::gradient) : Values();
  for (RankRun& rank : runs) {
    results.push_back(std::move(rank.result));
    RunResult& result = results.back();
    result.weights = weights;
    result.gradients = gradients;
    const RunResult& first = results[0];
    ensure(result.losses == first.losses && result.norms == first.norms &&
               result.validation == first.validation && result.router == first.router,
           "ranks report other losses or norms");
    ensure(result.scratchBytes == 0 && result.savedBytes == 0, "arenas are not empty");
  }
  return results;
}

double worstDifference(const Values& one, const Values& many, size_t* where) {
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
    const double relative = norm(difference) / std::max(norms[p], 1e-3 * *middle);
    if (std::isnan(worst) || relative <= worst) continue;  // a NaN stays
    worst = relative;
    if (where != nullptr) *where = p;
  }
  return worst;
}

}  // namespace tutti::parallel
