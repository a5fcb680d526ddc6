// tensor_parallel_mlp: one MLP whose two maps are cut over the ranks, trained by itself on a
// function of its input. The first map's outputs are cut and the second one's inputs, so each rank
// has its part of the inner width to itself: one AllReduce forward, behind the second map, and one
// backward, behind the first; with --sp a ReduceScatter and AllGathers. Losses are those of one
// rank, but for the order of additions. `tensor_parallel_mlp --ranks 4 --sp`

#include <CLI/CLI.hpp>
#include <cmath>

#include "parallel/engine/describe.h"
#include "parallel/nn/transformer.h"
#include "parallel/samples/elements.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/random.h"
#include "src/base/one_of.h"

namespace {

using namespace tutti::parallel;

struct MlpOptions {
  int64_t rows = 64, width = 32;
  bool sequenceParallel = false;
  std::string type = "float64";
};

void addFlags(CLI::App& app, SampleOptions& options, MlpOptions& o) {
  const auto add = [&](const char* flag, int64_t& value, const char* about) {
    app.add_option(flag, value, about)->check(positiveSize())->capture_default_str();
  };
  add("--steps", options.steps, "optimizer steps, each with all rows");
  add("--rows", o.rows, "of the input, which all ranks have, or with --sp share out");
  add("--width", o.width, "of input and output; inside it is four times that");
  app.add_flag("--sp", o.sequenceParallel,
               "sequence parallelism: activations outside the MLP are sharded by rows");
  app.add_option("--type", o.type, "float64 or float32")
      ->check(tutti::base::oneOf({"float64", "float32"}))
      ->capture_default_str();
}

/// Uniform in [-1, 1).
double input(int64_t row, int64_t column, int64_t width) {
  const auto place = static_cast<uint64_t>(row * width + column);
  return 2 * Random(kSampleSeed, "input").uniform(place) - 1;
}
/// What is to be learned: each output depends on two inputs.
double target(int64_t row, int64_t column, int64_t width) {
  return std::sin(3 * input(row, column, width)) * input(row, (column + 1) % width, width);
}

/// Half the sum of squares of y - target, y being all rows; dy is its gradient of this rank's rows.
double squares(const DeviceMesh& mesh, const Tensor& y, const Tensor& dy, const Range& rows) {
  if (mesh.dry()) return 0;
  const int64_t width = y.shape[1];
  std::vector<double> errors = elementsOf(mesh, y);
  double sum = 0;
  for (int64_t i = 0; i < y.count(); ++i) {
    double& error = errors[static_cast<size_t>(i)];
    error -= target(i / width, i % width, width);
    sum += error * error / 2;
  }
  setElements(mesh, dy, {errors.begin() + rows.begin * width, errors.begin() + rows.end * width});
  return sum;
}

/// The rows' inputs.
void fill(const DeviceMesh& mesh, const Tensor& x, const Range& rows) {
  if (mesh.dry()) return;
  const int64_t width = x.shape[1];
  std::vector<double> elements;
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t column = 0; column < width; ++column)
      elements.push_back(input(row, column, width));
  setElements(mesh, x, elements);
}

void train(SampleRank& rank, const MlpOptions& o) {
  const DType type = o.type == "float64" ? DType::Float64 : DType::Float32;
  ParameterStore store(rank.mesh, rank.kernels, ShardPolicy::ddp(), type);
  Mlp mlp({.name = "mlp",
           .unit = 0,
           .width = o.width,
           .deviation = 0.3,
           .residualDeviation = 0.1,
           .sequenceParallel = o.sequenceParallel});
  mlp.declare(store);
  store.initialize(kSampleSeed);
  Arena memory("input", rank.mesh.backing()), scratch("scratch", rank.mesh.backing());
  ActivationStash stash(rank.mesh.backing());
  ParallelContext context{rank.mesh, rank.kernels, store, scratch};
  TensorParallel& tensor = context.tensor;
  const auto optimizer = makeSgd({.momentum = 0.9});
  const double learningRate = 0.5 / static_cast<double>(o.rows * o.width);

  const bool cut = tensor.cutsRows(o.sequenceParallel);
  const Range rows = cut ? tensor.rowsOf(o.rows) : Range{0, o.rows};
  const Tensor x = memory.allocate(type, {rows.count(), o.width});
  fill(rank.mesh, x, rows);
  stash.tokens = {o.rows};

  CollectiveCounters forward, backward;
  for (int64_t step = 0; step < rank.options.steps; ++step) {
    store.beginStep(1);
    stash.openUnit(0);
    tensor.counters = {};
    Tensor y = mlp.forward(context, x, stash);
    if (cut) y.layout = cutOverTensor(0);
    forward = tensor.counters;

    // The sum of all rows' losses, in their order, on all ranks.
    const Tensor dy = stash.untilWeights.allocate(y.type, y.shape);
    const ArenaScope scope(scratch);
    const Tensor all = rearranged(rank.mesh, y, {o.rows, o.width}, {}, scratch);
    store.addLoss(squares(rank.mesh, all, dy, rows), 0);

    tensor.counters = {};
    mlp.backward(context, dy, stash);
    stash.closeUnit(context, {});
    backward = tensor.counters;
    rank.show(step, {.loss = store.finishLoss()}, 17);
    store.step(*optimizer, learningRate);
  }
  rank.say(message("forward   ", describe(forward), "\nbackward  ", describe(backward), "\n"));
  const CollectiveCount& biases = store.counters().partialAllReduce;
  if (biases.calls > 0)
    rank.say(message("step      ", describe(CollectiveCounters{.allReduce = biases}), "\n"));
}

}  // namespace

int main(int argc, char** argv) {
  MlpOptions o;
  return runSample(
      argc, argv,
      {.name = "tensor_parallel_mlp",
       .about = "Trains one MLP that is cut over the ranks.",
       .flags = [&](CLI::App& app, SampleOptions& options) { addFlags(app, options, o); },
       .mesh = [](int ranks) { return MeshShape::along(Axis::Tensor, ranks); },
       .train = [&](SampleRank& rank) { train(rank, o); }});
}
