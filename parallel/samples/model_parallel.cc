// model_parallel: a small GPT whose layers lie on several ranks, one after the other, and of which
// one rank computes at a time: a batch goes through all of them and back. It holds what one rank
// could not, and is no faster; pipeline_schedules shows what is. `model_parallel --ranks 4`

#include <CLI/CLI.hpp>

#include "parallel/samples/sample.h"

namespace {

using namespace tutti::parallel;

void train(SampleRank& rank) {
  const SampleOptions& o = rank.options;
  ShardPolicy policy = ShardPolicy::ddp();
  policy.deterministic = o.deterministic;

  Gpt model(o.model);
  Engine engine(
      rank.mesh, rank.kernels, model,
      {.policy = policy, .seed = kSampleSeed, .pipeline = {.schedule = ScheduleKind::Naive}});
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, o.model.context, o.batch, kSampleSeed);
  const auto optimizer = makeAdamW({});

  for (int64_t step = 0; step < o.steps; ++step)
    rank.show(step, engine.step(loader, step, *optimizer, 0.003));
  rank.showUse(engine);
}

}  // namespace

int main(int argc, char** argv) {
  return runSample(argc, argv,
                   {.name = "model_parallel",
                    .about = "Trains a small GPT whose layers are on several ranks.",
                    .flags =
                        [](CLI::App& app, SampleOptions& options) {
                          options.model.layers = 4;
                          addTrainingFlags(app, options);
                        },
                    .mesh = [](int ranks) { return MeshShape::along(Axis::Pipeline, ranks); },
                    .train = train});
}
