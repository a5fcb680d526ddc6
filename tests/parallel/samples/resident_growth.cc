// What a process that trains really takes of the machine's memory, against what was planned: each
// rank compares by how much its resident memory grows from before there is a model until after two
// steps, and fails where that is further than 5% from the plan, which has to be above 200 MB.
// `resident_growth --ranks 2 --layout fsdp=2`

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "parallel/engine/describe.h"
#include "parallel/planner/training_layout.h"
#include "parallel/samples/sample.h"

namespace {

using namespace tutti::parallel;

constexpr double kMostOff = 0.05;
constexpr size_t kLeastPlanned = size_t{200} << 20;

/// A page that several processes have counts as its share in each: ranks of a host read each
/// other's gradients where they lie.
size_t residentBytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string word; in >> word;)
    if (size_t kilobytes = 0; word == "Pss:" && in >> kilobytes) return kilobytes << 10;
  fail(tutti::ErrorCode::System, "/proc/self/smaps_rollup does not say Pss");
}

/// What libraries keep from their first use on is no part of a training.
void useLibraries(SampleRank& rank) {
  Arena arena("first use");
  const Tensor a = arena.allocate(DType::Float32, {256, 1024});
  const Tensor b = arena.allocate(DType::Float32, {1024, 1024});
  const Tensor c = arena.allocate(DType::Float32, {256, 1024});
  for (const Tensor& x : {a, b, c}) rank.kernels.fillZero(x);
  rank.kernels.gemm({.a = a, .b = b, .c = c});
}

/// 51 million parameters: with gradients and AdamW's moments 810 MB.
TrainingJob jobOf(const SampleOptions& options) {
  return {.model = GptOptions{.context = 32, .layers = 4, .width = 1024, .heads = 8},
          .types = DType::Float32,
          .batch = options.batch,
          .context = 32};
}

TrainingLayout layoutOf(const TrainingJob& job, const MeshShape& mesh) {
  const int data = mesh.ranks({Axis::Data, Axis::Fsdp});
  return {.mesh = mesh,
          .zero = mesh[Axis::Fsdp] > 1 ? 3 : 0,
          .microBatches = static_cast<int>(job.batch) / data};
}

void train(SampleRank& rank) {
  if (!rank.mesh.dry()) useLibraries(rank);
  const size_t before = residentBytes();
  const TrainingJob job = jobOf(rank.options);
  const TrainingLayout layout = layoutOf(job, rank.mesh.shape());
  const auto model = makeModel(modelUnder(job, layout));
  const auto optimizer = makeOptimizer(job.optimizer);
  Engine engine(rank.mesh, rank.kernels, *model, engineUnder(job, layout));
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, job.context, job.batch, kSampleSeed);
  for (int step = 0; step < 2; ++step) engine.step(loader, step, *optimizer, 0.001);
  if (rank.mesh.dry()) return;
  MeshCommunicator* const all = rank.mesh.communicator(AxisSet::all());
  all->barrier();
  const auto grown = static_cast<double>(residentBytes() - before);
  all->barrier();  // until then nobody ends, whose pages would be the others' alone
  const TrainingMemory planned = dryRunUnder(job, layout, rank.mesh.rank()).memory;
  const double off = grown / static_cast<double>(planned.total()) - 1;
  std::printf("%s, rank %d: grew by %s, planned %s: %+.1f%%\n", layout.describe().c_str(),
              rank.mesh.rank(), bytesText(static_cast<size_t>(grown)).c_str(),
              bytesText(planned.total()).c_str(), 100 * off);
  ensure(planned.total() >= kLeastPlanned, "too little is planned to compare: ", describe(planned));
  ensure(std::abs(off) <= kMostOff, "rank ", rank.mesh.rank(), " grew by another amount than ",
         describe(planned));
}

}  // namespace

int main(int argc, char** argv) {
  std::string layout = "dp=2";
  return runSample(argc, argv,
                   {.name = "resident_growth",
                    .about = "By how much a training's ranks grow, against what was planned.",
                    .flags =
                        [&](CLI::App& app, SampleOptions& options) {
                          options.batch = 4;
                          app.add_option("--layout", layout, "of all ranks");
                        },
                    .mesh = [&](int) { return MeshShape::parse(layout); },
                    .train = train});
}
