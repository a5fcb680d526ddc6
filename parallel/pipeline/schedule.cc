#include "parallel/pipeline/schedule.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <utility>

namespace tutti::parallel {

const char* toString(ActionKind kind) {
  switch (kind) {
    case ActionKind::F: return "F";
    case ActionKind::B: return "B";
    case ActionKind::W: return "W";
    case ActionKind::SendF: return "SendF";
    case ActionKind::RecvF: return "RecvF";
    case ActionKind::SendB: return "SendB";
    case ActionKind::RecvB: return "RecvB";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, const Action& action) {
  out << toString(action.kind) << ' ' << action.microBatch;
  if (action.chunk > 0) out << '.' << action.chunk;
  return out;
}

size_t groupSize(std::span<const Action> actions) {
  size_t size = 0;
  while (size < actions.size() && !actions[size].computes() && !(size > 0 && actions[size].apart))
    ++size;
  return size;
}

int Schedule::stage(int rank, int chunk) const {
  const bool back = placement == StagePlacement::V && chunk % 2 == 1;
  return chunk * ranks + (back ? ranks - 1 - rank : rank);
}

int Schedule::rankOf(int stage) const {
  const bool back = placement == StagePlacement::V && chunkOf(stage) % 2 == 1;
  return back ? ranks - 1 - stage % ranks : stage % ranks;
}

int Schedule::slots(int rank) const {
  int most = 0;
  for (const Action& action : byRank[static_cast<size_t>(rank)])
    most = std::max(most, action.slot + 1);
  return most;
}

int Schedule::waiting(int rank, ActionKind receive) const {
  const ActionKind user = receive == ActionKind::RecvF ? ActionKind::F : ActionKind::B;
  std::set<std::pair<int, int>> here;  // chunks and micro-batches
  size_t most = 0;
  for (const Action& action : byRank[static_cast<size_t>(rank)]) {
    if (action.kind == receive) here.emplace(action.chunk, action.microBatch);
    most = std::max(most, here.size());
    if (action.kind == user) here.erase({action.chunk, action.microBatch});
  }
  return static_cast<int>(most);
}

StageTransfer transferOf(const Schedule& s, int rank, const Action& action) {
  const int stage = s.stage(rank, action.chunk);
  switch (action.kind) {
    case ActionKind::SendF: return {s.rankOf(stage + 1), stage};
    case ActionKind::RecvF: return {s.rankOf(stage - 1), stage - 1};
    case ActionKind::SendB: return {s.rankOf(stage - 1), stage};
    case ActionKind::RecvB: return {s.rankOf(stage + 1), stage + 1};
    default: fail(ErrorCode::Internal, action, " is no transfer");
  }
}

}  // namespace tutti::parallel
