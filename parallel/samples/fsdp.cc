// fsdp: a small GPT whose weights, gradients and optimizer's state the ranks share out. A block's
// weights are gathered before it is computed with, and given back behind it. With --dp the ranks
// along fsdp share out what is replicated over dp: hybrid sharding. `fsdp --ranks 4 --dp 2`

#include <CLI/CLI.hpp>

#include "parallel/samples/options/flags.h"
#include "parallel/samples/sample.h"

namespace {

using namespace tutti::parallel;

struct FsdpOptions {
  int replicas = 1;
  ReshardFlags reshard;
};

void addFlags(CLI::App& app, FsdpOptions& options) {
  app.add_option("--dp", options.replicas, "ranks that hold the same; they divide --ranks")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  addReshardFlags(app, options.reshard);
}

MeshShape meshOf(int ranks, int replicas) {
  require(ranks % replicas == 0, "--dp ", replicas, " does not divide ", ranks, " ranks");
  MeshShape shape;
  shape[Axis::Data] = replicas;
  shape[Axis::Fsdp] = ranks / replicas;
  return shape;
}

void train(SampleRank& rank, const FsdpOptions& options) {
  const SampleOptions& o = rank.options;
  ShardPolicy policy = ShardPolicy::fsdp();
  policy.reshard = reshardOf(options.reshard);
  policy.deterministic = o.deterministic;

  Gpt model(o.model);
  Engine engine(rank.mesh, rank.kernels, model, {.policy = policy, .seed = kSampleSeed});
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, o.model.context, o.batch, kSampleSeed);
  const auto optimizer = makeAdamW({});

  for (int64_t step = 0; step < o.steps; ++step)
    rank.show(step, engine.step(loader, step, *optimizer, 0.003));
  rank.showUse(engine);
}

}  // namespace

int main(int argc, char** argv) {
  FsdpOptions options;
  return runSample(argc, argv,
                   {.name = "fsdp",
                    .about = "Trains a small GPT whose state the ranks share out.",
                    .flags =
                        [&](CLI::App& app, SampleOptions& training) {
                          addTrainingFlags(app, training);
                          addFlags(app, options);
                        },
                    .mesh = [&](int ranks) { return meshOf(ranks, options.replicas); },
                    .train = [&](SampleRank& rank) { train(rank, options); }});
}
