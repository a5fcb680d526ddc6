#pragma once

// Every strategy of the literature on one model: how the layouts are called, and what exchanges
// take here.

#include <map>
#include <string>
#include <vector>

#include "parallel/planner/predictor.h"
#include "parallel/samples/sample.h"

namespace tutti::parallel {

struct Strategy {
  std::string name;  ///< "FSDP"
  TrainingLayout layout;
};
struct Strategies {
  std::vector<Strategy> possible;
  /// Names of the others, by why they are.
  std::map<std::string, std::vector<std::string>> leftOut;
  /// "left out: TP, TP with SP (why); PP x DP (why)"; nothing where none is.
  std::string describeLeftOut() const;
};
/// Those that so many ranks, batch and model allow, of experts only where the model has some. A
/// micro-batch has as many sequences under all of them, those of a data-parallel rank; in a
/// pipeline it has one.
Strategies strategiesOf(const TrainingJob& job, int ranks);

/// What exchanges took here: a constant and a rate for each kind and number of ranks.
class MeasuredNetwork final : public NetworkModel {
 public:
  using NetworkModel::seconds;
  /// Collective over all ranks: all groups of a size measure at the same time.
  explicit MeasuredNetwork(SampleRank& rank);
  double seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind kind, double bytes) override;

 private:
  struct Line {
    double call = 0, byte = 0;  // seconds
  };
  std::map<std::pair<CollectiveKind, int>, Line> lines_;
};

/// What exchanges take whose bytes are copied in memory and that cost nothing else: each that a
/// rank gets from another one once, and in an AllReduce twice. Of ranks that are not there.
class CopyingNetwork final : public NetworkModel {
 public:
  using NetworkModel::seconds;
  explicit CopyingNetwork(double bytesPerSecond) : bytesPerSecond_(bytesPerSecond) {}
  double seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind kind, double bytes) override;

 private:
  const double bytesPerSecond_;
};

}  // namespace tutti::parallel
