#pragma once

// What runs a rank's operations: its collectives by programs, and its sends and receives. The host
// executor polls them; the executors of GPUs (gpu_executor.h) enqueue them on streams. Whoever
// looks after a communicator asks these questions of each, and they mean the same.

#include <cstdint>
#include <memory>
#include <optional>

#include "src/plan/plan.h"
#include "src/plan/waves.h"

namespace tutti::executor {

/// A plan with this rank's program, ready to be run. Of one executor, and alive while calls or
/// graphs use it.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
  virtual const plan::PlanSpec& spec() const = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// At the first call of a kind, by the thread that issues. Throws InvalidArgument with the
  /// numbers where the program has more than the executor can run, Unsupported where it cannot run
  /// such plans, OutOfMemory where there is no room for it.
  virtual std::unique_ptr<PreparedPlan> prepare(const plan::PlanSpec& spec,
                                                const plan::ProgramOf& programOf) = 0;

  // Any thread's.
  /// Whether an operation, a graph's too, has begun and not ended. What does not come ends by its
  /// deadline. By copies: whether one waits for a peer, for copies end by themselves.
  virtual bool isRunning() = 0;
  /// Of a collective that has begun and not ended, a graph's too: how many of this rank's
  /// operations had ended before it. As of a moment ago.
  virtual std::optional<uint64_t> underWay() const = 0;
  /// Collectives that have ended well, those of graphs each time; modulo 2^32 on GPUs, and nothing
  /// by copies, which do not count them.
  virtual std::optional<uint64_t> collectivesEnded() const = 0;
};

}  // namespace tutti::executor
