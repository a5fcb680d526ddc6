// Rungs 3 and 5 of context parallelism: what is claimed of bits, and checkpoints. That gradients,
// steps and replicas are one rank's is where the other axes' are.

#include <gtest/gtest.h>

#include "parallel/checkpoint/names.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

RunOptions deterministic(const Arrangement& layout, int steps) {
  RunOptions options{.model = kRunGpt, .groups = 4, .steps = steps, .adam = true, .clip = 0.1};
  options.policy.deterministic = true;
  return under(layout, options);
}

std::vector<Arrangement> layoutsWithContextParallelism() {
  return {arrangement("cp=2"), exchanging(arrangement("cp=4")), arrangement("fsdp=2,cp=2", zero(3)),
          exchanging(arrangement("cp=2,tp=2", zero(0), true))};
}

// Pieces of a sequence are added up in another order than a whole one's, so one rank's bits are not
// claimed; the same order, every time, is.
TEST(Rung3, TwoRunsOfContextParallelRanks) {
  for (const Arrangement& layout : layoutsWithContextParallelism()) {
    const RunOptions options = deterministic(layout, 6);
    expectWithin(sameBits(run(options)[0], layout.name + ", twice", options));
  }
}

// With the same ranks of context parallelism, other axes change no bit.
TEST(Rung3, DataParallelRanksOfContextParallelOnes) {
  for (const bool exchanged : {false, true}) {
    const auto of = [&](const std::string& mesh, int stage) {
      const Arrangement layout = arrangement(mesh, zero(stage));
      return exchanged ? exchanging(layout) : layout;
    };
    const RunResult two = run(deterministic(of("cp=2", 0), 6))[0];
    for (const Arrangement& layout : {of("dp=2,cp=2", 0), of("dp=4,cp=2", 0), of("fsdp=2,cp=2", 1),
                                      of("dp=2,fsdp=2,cp=2", 3), piped(of("pp=2,cp=2", 0), {})})
      expectWithin(sameBits(two, layout.name + " to cp=2", deterministic(layout, 6)));
  }
}

// Weights do not know of it: a checkpoint of one layout is one of any other. What follows is the
// run that never stopped, to the bit where the pieces are the same.
TEST(Rung5, ContextParallelRanksSaveAndLoad) {
  const std::vector<Arrangement> layouts{arrangement(""), arrangement("tp=2"), arrangement("cp=2"),
                                         exchanging(arrangement("fsdp=2,cp=2", zero(3)))};
  for (const Arrangement& from : layouts) {
    const tests::TemporaryFolder folder;
    RunOptions first = deterministic(from, 2);
    first.saveTo = folder.path();
    run(first);
    for (const Arrangement& to : layouts) {
      const std::string what = from.name + " to " + to.name;
      expectWithin(loadedAndSaved(first.saveTo, what, deterministic(to, 0)));
      if (from.name != to.name) continue;
      RunResult whole = run(deterministic(from, 4))[0];
      whole.losses.erase(whole.losses.begin(), whole.losses.begin() + 2);
      whole.norms.erase(whole.norms.begin(), whole.norms.begin() + 2);
      RunOptions second = deterministic(to, 2);
      second.loadFrom = latestCheckpoint(first.saveTo)->string();
      expectWithin(sameBits(whole, what + ", resumed", second));
    }
  }
}

}  // namespace
}  // namespace tutti::parallel
