// operator_placement: the two operators of a block that do not wait for each other, attention and
// the MLP of a parallel block, each whole on a rank of its own. `operator_placement --ranks 2`;
// with
// --cut both are cut over both ranks instead, which takes twice as many AllReduces.

#include <CLI/CLI.hpp>
#include <algorithm>

#include "parallel/samples/sample.h"
#include "src/base/table.h"

namespace {

using namespace tutti::parallel;
using tutti::base::fixed;
using tutti::base::TextTable;

struct PlacementOptions {
  bool cut = false;
};

/// Of a block, for each token: multiplications, and elements of weights.
struct Operator {
  const char* name;
  int rank;  // that has it, of two
  double multiplications, weights;
};

std::vector<Operator> operatorsOf(const GptOptions& o) {
  const auto width = static_cast<double>(o.width), context = static_cast<double>(o.context);
  // Queries, keys, values and the result's map; scores and their use, of half of the positions.
  return {{"attention", 0, 4 * width * width + width * context, 4 * width * width + 4 * width},
          {"MLP", 1, 8 * width * width, 8 * width * width + 5 * width}};
}

/// Where the operators are, and what that can be worth.
void showPlaces(const SampleRank& rank, bool placed) {
  if (!placed) return;
  double all = 0, most = 0;
  std::vector<TextTable::Cells> rows;
  for (const Operator& op : operatorsOf(rank.options.model)) {
    rows.push_back({op.name, message("rank ", op.rank % rank.mesh.ranks()),
                    message(fixed(op.multiplications, 0), " multiplications a token, ",
                            fixed(op.weights, 0), " weights")});
    all += op.multiplications;
    most = std::max(most, op.multiplications);
  }
  rank.say(TextTable::fitting(rows));
  if (rank.mesh.ranks() == 1) return;
  rank.say(
      message("a block's operators take at least ", fixed(most / all, 2), " of one rank's time\n"));
}

void train(SampleRank& rank, const PlacementOptions& options) {
  const SampleOptions& o = rank.options;
  showPlaces(rank, !options.cut);
  GptOptions gpt = o.model;
  gpt.branches = options.cut ? Branches::Parallel : Branches::Placed;
  Gpt model(gpt);
  Engine engine(rank.mesh, rank.kernels, model,
                {.policy = ShardPolicy::ddp(), .types = DType::Float64, .seed = kSampleSeed});
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, o.model.context, o.batch, kSampleSeed);
  const auto optimizer = makeAdamW({});
  constexpr int kAllDigits = 17;
  for (int64_t step = 0; step < o.steps; ++step)
    rank.show(step, engine.step(loader, step, *optimizer, 0.003), kAllDigits);
  rank.showUse(engine);
}

/// Those of --ranks along the axes of tensor parallelism.
MeshShape meshOf(int ranks, bool cut, const GptOptions& model) {
  require(cut || ranks <= 2, "--ranks ", ranks, ": there are two operators to place, so 1 or 2");
  MeshShape shape;
  setTensorRanks(shape, ranks, model.heads, model.heads);
  return shape;
}

}  // namespace

int main(int argc, char** argv) {
  PlacementOptions options;
  const GptOptions* model = nullptr;  // that the flags make
  return runSample(argc, argv,
                   {.name = "operator_placement",
                    .about = "Trains a small GPT whose operators are on different ranks.",
                    .flags =
                        [&](CLI::App& app, SampleOptions& sample) {
                          addTrainingFlags(app, sample);
                          app.add_flag("--cut", options.cut, "both on both ranks, cut");
                          model = &sample.model;
                        },
                    .mesh = [&](int ranks) { return meshOf(ranks, options.cut, *model); },
                    .train = [&](SampleRank& rank) { train(rank, options); }});
}
