#pragma once

// Schedule: what each rank of a pipeline does in one step, in order, as plain data: it copies,
// compares, prints, is checked (violations.h), timed (timeline.h) and drawn before it runs.
//
// A model is cut into stages, consecutive ranges of its layers. A rank holds one or several of
// them, its chunks:
//
//   in order, 2 chunks           V-shaped: the last rank hands on to itself
//   rank 0   stages 0 and 3      rank 0   stages 0 and 5
//   rank 1   stages 1 and 4      rank 1   stages 1 and 4
//   rank 2   stages 2 and 5      rank 2   stages 2 and 3
//
// What a forward has to keep until backward lies in a slot of its rank; what is received waits
// outside of it for the computation that needs it. Transfers that stand between the same two
// computations are one group, all under way at the same time, or two: the next computation waits
// for the first, the second comes while it computes. A rank's groups come one after the other.

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

/// F: forward of a stage. B: the gradient of its input and, unless the schedule splits backward, of
/// its weights. W: the gradient of its weights. The others: what F or B made goes to the next or
/// comes from the previous stage, as B sees it the other way round.
enum class ActionKind : uint8_t { F, B, W, SendF, RecvF, SendB, RecvB };
const char* toString(ActionKind kind);  ///< "F", "SendF"

struct Action {
  ActionKind kind;
  int chunk = 0;       ///< of this rank, that computes, or for which this is sent or received
  int microBatch = 0;  ///< of this rank's in the step
  int slot = 0;        ///< of the rank, that F takes and the last computation gives back
  bool apart = false;  ///< a transfer that begins a group, although one is right before it

  bool computes() const {
    return kind == ActionKind::F || kind == ActionKind::B || kind == ActionKind::W;
  }
  bool sends() const { return kind == ActionKind::SendF || kind == ActionKind::SendB; }
  bool receives() const { return kind == ActionKind::RecvF || kind == ActionKind::RecvB; }
  bool operator==(const Action&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Action& action);  ///< "F 3", "SendB 3.1"

/// How many actions at the front are one group; 0 before a computation.
size_t groupSize(std::span<const Action> actions);

enum class StagePlacement : uint8_t { InOrder, V };

struct Schedule {
  std::string name;
  int ranks = 1, chunks = 1, microBatches = 1;
  StagePlacement placement = StagePlacement::InOrder;
  bool splitsBackward = false;  ///< into B and W
  std::vector<std::vector<Action>> byRank;

  int stages() const { return ranks * chunks; }
  int stage(int rank, int chunk) const;
  int rankOf(int stage) const;
  int chunkOf(int stage) const { return stage / ranks; }
  /// What ends the use of a slot.
  ActionKind last() const { return splitsBackward ? ActionKind::W : ActionKind::B; }

  int slots(int rank) const;  ///< that a rank needs
  /// The most messages of a kind that a rank has received, or is receiving, and not used yet.
  int waiting(int rank, ActionKind receive) const;
  bool operator==(const Schedule&) const = default;
};

/// The other end of a transfer, and the stage whose F or B made what is sent.
struct StageTransfer {
  int peer = 0, producer = 0;
};
StageTransfer transferOf(const Schedule& schedule, int rank, const Action& action);

}  // namespace tutti::parallel
