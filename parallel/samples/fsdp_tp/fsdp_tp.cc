// fsdp_tp: a small GPT over a mesh of fsdp x tp, within a limit on what each rank may hold. FSDP
// shares out what lasts from step to step, but each rank computes whole layers on whole sequences:
// their activations, and the weights that are gathered for them, it does not cut. Tensor
// parallelism does. So with the default limit 4 ranks need --tp 4, and the sample says so before it
// trains, since a run without data tells it what a rank would hold. `fsdp_tp --ranks 4 --tp 4`,
// `fsdp_tp --ranks 4 --compare`

#include <CLI/CLI.hpp>

#include "parallel/engine/describe.h"
#include "parallel/samples/fsdp_tp/fsdp_tp_memory.h"
#include "parallel/samples/fsdp_tp/layout_comparison.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/random.h"
#include "src/base/one_of.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

struct FsdpTpOptions {
  int tp = 1;
  uint64_t memoryLimit = uint64_t{16} << 20;
  std::string dataset = "text";
  bool compare = false;
};

void addFlags(CLI::App& app, SampleOptions& options, FsdpTpOptions& o) {
  options.model = {.context = 256, .layers = 6, .width = 128, .heads = 4};
  options.batch = 4;
  options.steps = 10;
  addTrainingFlags(app, options);
  app.add_option("--tp", o.tp, "ranks that share out each layer; those of fsdp are the others")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag(
      "--sp", options.model.sequenceParallel,
      "sequence parallelism: these ranks shard the activations between the layers' maps too");
  app.add_option("--memory-limit", o.memoryLimit, "bytes that a rank may hold; 0: any number")
      ->transform(byteSize())
      ->default_str("16M");
  app.add_option("--dataset", o.dataset, "text, or random tokens")
      ->check(base::oneOf({"text", "random"}))
      ->capture_default_str();
  app.add_flag("--compare", o.compare,
               "times --tp 1, 2, 4, ... in turn, each step of one after that of another; no limit");
}

std::vector<uint8_t> tokensOf(const std::string& dataset) {
  if (dataset == "text") return sampleText();
  std::vector<uint8_t> tokens(size_t{1} << 16);
  const Random random(kSampleSeed, "dataset");
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint8_t>(random.below(i, 256));
  return tokens;
}

void train(SampleRank& rank, const FsdpTpOptions& options) {
  const SampleOptions& o = rank.options;
  requireFit(rank.mesh.shape(), o, options.memoryLimit);
  const TrainingMemory planned = plannedMemory(rank.mesh.shape(), rank.mesh.rank(), o);
  if (!rank.mesh.dry()) rank.say("planned: rank 0 " + describe(planned));
  const std::vector<uint8_t> tokens = tokensOf(options.dataset);
  Gpt model(o.model);
  Engine engine(rank.mesh, rank.kernels, model, fsdpTpEngine(o));
  Loader loader(tokens, o.model.context, o.batch, kSampleSeed);
  const auto optimizer = makeAdamW({});
  StepTimes times(rank.mesh);
  for (int64_t step = 0; step < o.steps; ++step)
    times.measure([&] { rank.show(step, engine.step(loader, step, *optimizer, kFsdpTpRate)); });
  rank.showUse(engine);
  if (rank.mesh.dry()) return;
  const TrainingMemory held = engine.memory();
  ensure(held == planned, "rank ", rank.mesh.rank(), " ", describe(held),
         "and it was planned that it ", describe(planned));
  rank.say(message("as planned; a step takes ", times.medianMilliseconds(), " ms\n"));
}

}  // namespace

int main(int argc, char** argv) {
  FsdpTpOptions options;
  return runSample(
      argc, argv,
      {.name = "fsdp_tp",
       .about = "Trains a small GPT over fsdp x tp ranks, each of which may hold so much.",
       .flags = [&](CLI::App& app, SampleOptions& all) { addFlags(app, all, options); },
       .mesh = [&](int ranks) { return fsdpTpMesh(ranks, options.tp); },
       .train =
           [&](SampleRank& rank) {
             if (options.compare)
               compareLayouts(rank, tokensOf(options.dataset), options.memoryLimit);
             else
               train(rank, options);
           }});
}
