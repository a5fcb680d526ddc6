// ddp: a small GPT trained data-parallel. Every rank is a process that has the whole model and
// takes its part of each batch; gradients are added by AllReduce, bucket by bucket, while backward
// goes on. `ddp --ranks 4`

#include "parallel/samples/sample.h"

namespace {

using namespace tutti::parallel;

void train(SampleRank& rank) {
  const SampleOptions& o = rank.options;
  ShardPolicy policy = ShardPolicy::ddp();
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
  return runSample(argc, argv,
                   {.name = "ddp",
                    .about = "Trains a small GPT by DDP, one process a rank.",
                    .mesh = [](int ranks) { return MeshShape::along(Axis::Data, ranks); },
                    .train = train});
}
