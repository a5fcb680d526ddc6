// zero: a small GPT trained as a configuration file of DeepSpeed says: its stage of ZeRO, batch and
// micro-batches, buckets, offload, types, clipping and optimizer (see deepspeed_config.h).
// `zero --ranks 4 --config ds.json`

#include <CLI/CLI.hpp>

#include "parallel/samples/options/deepspeed_config.h"
#include "parallel/samples/sample.h"

namespace {

using namespace tutti::parallel;

void train(SampleRank& rank, const std::string& file) {
  const SampleOptions& o = rank.options;
  DeepSpeedConfig config = readDeepSpeedConfig(file);
  config.policy.deterministic = o.deterministic;
  const DeepSpeedBatch batch = batchOn(config, rank.mesh.ranks());
  for (const std::string& note : config.notes) rank.note(note);

  Gpt model(o.model);
  Engine engine(rank.mesh, rank.kernels, model,
                {.policy = config.policy,
                 .types = config.types,
                 .reductionGroups = batch.microBatches,
                 .clipNorm = config.clip,
                 .seed = kSampleSeed,
                 .lossScaling = config.lossScaling});
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, o.model.context, batch.sequences, kSampleSeed);
  const auto optimizer = config.makeOptimizer();

  for (int64_t step = 0; step < o.steps; ++step)
    rank.show(step, engine.step(loader, step, *optimizer, config.learningRate));
  rank.showUse(engine);
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  return runSample(
      argc, argv,
      {.name = "zero",
       .about = "Trains a small GPT by ZeRO, as a configuration file of DeepSpeed says.",
       .flags =
           [&](CLI::App& app, SampleOptions& training) {
             addTrainingFlags(app, training);
             app.add_option("--config", file, "DeepSpeed's JSON; the batch is its own")->required();
           },
       .mesh = [](int ranks) { return MeshShape::along(Axis::Fsdp, ranks); },
       .train = [&](SampleRank& rank) { train(rank, file); }});
}
