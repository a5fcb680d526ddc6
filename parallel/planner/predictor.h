#pragma once

// Predictor: memory by kind and the time of a step of one layout, found by running it dry. What
// each rank holds, computes and sends is counted, not modelled; rates and the network say how long
// that takes, and the pipeline's schedule who waits for whom.

#include <map>
#include <vector>

#include "parallel/planner/prediction.h"
#include "parallel/planner/rates.h"

namespace tutti::parallel {

/// Runs without data of the ranks that stand for all: along pp those whose stages differ, along
/// every other axis the first, which has the larger part of what is cut unevenly.
struct RankRuns {
  struct Run {
    int stands = 1;  ///< for so many of the ranks along pp
    ShortDryRun run;
  };
  std::vector<Run> runs;

  /// The one that holds most.
  const Run& largest() const;
};

class Predictor {
 public:
  /// `network` must outlive it. `ranksPerHost` share the cores of a host, if rates have any.
  Predictor(TrainingJob job, DeviceRates rates, NetworkModel& network, int ranksPerHost);

  const TrainingJob& job() const { return job_; }
  /// What the rank that holds most holds, where that is at most `limit` bytes; otherwise what some
  /// rank holds at the least, which is more. Throws InvalidArgument where the job cannot be shared
  /// out so.
  const TrainingMemory& held(const TrainingLayout& layout, size_t limit);
  /// Stops at the first rank that holds more than `limit` bytes. Runs once for each layout. Throws
  /// as held().
  const RankRuns& runs(const TrainingLayout& layout, size_t limit);
  Prediction predict(const TrainingLayout& layout);
  /// Runs without data so far.
  int dryRuns() const { return dryRuns_; }

 private:
  struct Work;
  std::vector<std::pair<int, int>> kindsOfRanks(const TrainingLayout& layout) const;
  Work workOf(const TrainingLayout& layout, const DryRun& run);
  StepSeconds secondsOf(const TrainingLayout& layout, const std::vector<Work>& works,
                        const RankRuns& runs, size_t slowest) const;
  double ringWaits(double messages, int ranks, double attention) const;
  double stretched(double length, const std::vector<Work>& works, const RankRuns& runs,
                   const TrainingLayout& layout) const;

  const TrainingJob job_;
  const DeviceRates rates_;
  NetworkModel& network_;
  const int ranksPerHost_;
  int dryRuns_ = 0;
  std::map<std::string, RankRuns> done_;         // by what their layout says of itself
  std::map<std::string, TrainingMemory> least_;  // of rank 0
};

}  // namespace tutti::parallel
