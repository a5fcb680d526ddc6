#pragma once

// PlanChecker proves a plan before it runs. It executes the programs of all ranks symbolically on
// the machine of plan.h, with one, two and three rounds, in place and out of place, and demands:
//
//   - every output chunk holds what the collective promises: the right rank's input, or the sum of
//     every rank's input exactly once, marked complete once, and never marked before;
//   - all ranks hold the same expression, so replicas are equal to the bit. Steps with two operands
//     count as commutative (a + b == b + a in IEEE arithmetic, payloads of NaNs excepted), steps
//     with more keep their order, because they may round otherwise than steps in a row; and the
//     step that completes a sum either folds it or copies it, rounded already, on every rank. What
//     executors owe in turn: a step's result depends on its operands, its fold, and whether it
//     completes; an input has one value wherever it is read (premultiplied, it is rounded); two
//     operands give the same by either fold;
//   - in place, no sum reads an input once it was overwritten, were it by itself: inputs are
//     premultiplied where they are read, so it would be so twice;
//   - nothing is read before it is written, and no step writes what another may at that time read
//     or write: conflicting accesses are ordered by lanes, by `after`, or by a message. Free slots
//     order nothing. A peer's buffer is touched only before the peer's program ends;
//   - no circular wait with `minSlots` slots. Programs cannot look at what has arrived, so all
//     interleavings end alike and one of them decides;
//   - both ends of every channel agree about every message, and the spec's facts are true.
//
// A refusal is a value, not an exception: what is wrong, and at which step of which rank.

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan {

using BuildFunction = std::function<Program(const PlanSpec&, int rank)>;

struct CheckError {
  int rank = -1;  ///< -1 where the spec is wrong
  int lane = -1;  ///< -1 where a step is missing
  int step = -1;
  std::string message;  ///< names all of them in words
};

/// What the plan was seen to do.
struct Measured {
  int steps = 0;          ///< messages on the longest chain of one round
  double blocksSent = 0;  ///< most that one rank moves to or from others, in blocks
  double linkBlocks = 0;  ///< most that flows from one rank to one other, in blocks
  double hostBlocks = 0;  ///< most that leaves one of the spec's hosts or comes to it, in blocks
  bool canonicalOrder = false;
  std::string expression;  ///< of the first output chunk of a reduction, "((0+1)+2)"
};

struct CheckResult {
  std::optional<CheckError> error;
  Measured measured;  ///< meaningful when there is no error
  bool ok() const { return !error; }
};

class PlanChecker {
 public:
  /// The programs of one spec, as `build` makes them.
  PlanChecker(const PlanSpec& spec, const BuildFunction& build);
  PlanChecker(const PlanSpec& spec, std::vector<Program> programs);

  /// Proves the plan for each of these numbers of rounds, each at least 1 and at most 8.
  CheckResult check(std::initializer_list<int> rounds = {1, 2, 3}) const;

 private:
  PlanSpec spec_;
  std::vector<Program> programs_;
};

}  // namespace tutti::plan
