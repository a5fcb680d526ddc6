#include "parallel/samples/fsdp_tp/layout_comparison.h"

#include <algorithm>
#include <list>
#include <memory>
#include <numeric>

#include "parallel/engine/describe.h"
#include "parallel/samples/fsdp_tp/fsdp_tp_memory.h"
#include "src/base/table.h"

namespace tutti::parallel {

double StepTimes::medianMilliseconds() const {
  std::vector<double> times = milliseconds_;
  if (times.size() > 1) times.erase(times.begin());
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

double StepTimes::totalMilliseconds() const {
  return milliseconds_.empty()
             ? 0
             : std::accumulate(milliseconds_.begin() + 1, milliseconds_.end(), 0.0);
}

namespace {

using Cells = base::TextTable::Cells;

/// The training under one layout.
struct Compared {
  Compared(SampleRank& of, const MeshShape& shape, const std::vector<uint8_t>& tokens)
      : mesh(of.mesh.arranged(shape)),
        model(of.options.model),
        engine(mesh, of.kernels, model, fsdpTpEngine(of.options)),
        loader(tokens, of.options.model.context, of.options.batch, kSampleSeed),
        optimizer(makeAdamW({})) {}
  void step(int64_t step) {
    times.measure([&] { loss = engine.step(loader, step, *optimizer, kFsdpTpRate).loss; });
  }

  DeviceMesh mesh;
  Gpt model;
  Engine engine;
  Loader loader;
  std::unique_ptr<Optimizer> optimizer;
  StepTimes times{mesh};
  double loss = 0;  // of the last step
};

Cells heading(bool dry) {
  if (dry) return {"tp", "rank 0 holds", "fits"};
  return {"tp", "rank 0 holds", "a step", "loss at the end", "fits"};
}

Cells row(const Compared& layout, bool dry, uint64_t limit) {
  const size_t bytes = layout.engine.memory().total();
  Cells cells{message(layout.mesh.extent(kTensorAxes)), bytesText(bytes)};
  if (!dry) {
    cells.push_back(base::fixed(layout.times.medianMilliseconds(), 2) + " ms");
    cells.push_back(base::significant(layout.loss, 9));
  }
  cells.emplace_back(limit == 0 || bytes <= limit ? "yes" : "no");
  return cells;
}

}  // namespace

void compareLayouts(SampleRank& rank, const std::vector<uint8_t>& tokens, uint64_t limit) {
  const SampleOptions& o = rank.options;
  const int ranks = rank.mesh.ranks();
  std::list<Compared> layouts;
  for (const int tp : possibleTp(ranks, o))
    layouts.emplace_back(rank, fsdpTpMesh(ranks, tp), tokens);
  for (int64_t step = 0; step < o.steps; ++step)
    for (Compared& layout : layouts) layout.step(step);
  const bool dry = rank.mesh.dry();
  std::vector<Cells> rows{heading(dry)};
  for (const Compared& layout : layouts) rows.push_back(row(layout, dry, limit));
  rank.say(base::TextTable::fitting(rows));
}

}  // namespace tutti::parallel
