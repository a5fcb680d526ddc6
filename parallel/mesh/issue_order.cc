#include "parallel/mesh/issue_order.h"

#include <map>
#include <tuple>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// What a call is counted by: its communicator and, of a message, the other rank (of the job).
struct Line {
  AxisSet axes;
  int peer = -1;  // -1: a collective
  bool sends = false;
  auto operator<=>(const Line&) const = default;
};

/// What has to be reached on another rank before a call ends.
struct Need {
  int rank;
  Line line;
  size_t number;  // of those of its line
};

std::string describe(const IssuedCall& call) {
  return message(toString(call.purpose), " over ", call.axes.describe());
}

class IssueWalk {
 public:
  IssueWalk(const MeshShape& shape, std::span<const IssueOrder> byRank)
      : shape_(shape), byRank_(byRank), ranks_(byRank.size()) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const IssuedCall& call : byRank[rank]) add(static_cast<int>(rank), call);
  }

  std::optional<std::string> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank)
        while (advance(static_cast<int>(rank))) moved = true;
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].at < byRank_[rank].size()) return whyStuck(static_cast<int>(rank));
    return {};
  }

 private:
  struct Rank {
    size_t at = 0;                              // the call that is under way
    std::vector<std::vector<Need>> needs;       // of each call
    std::map<Line, std::vector<size_t>> lines;  // calls by what they are counted by
    std::map<AxisSet, std::vector<int>> groups;
  };

  Rank& of(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  const std::vector<int>& group(int rank, AxisSet axes) {
    auto& ranks = of(rank).groups[axes];
    if (ranks.empty()) ranks = ranksAlong(shape_, rank, axes);
    return ranks;
  }

  void add(int rank, const IssuedCall& call) {
    Rank& mine = of(rank);
    const size_t index = mine.needs.size();
    std::vector<Need>& needs = mine.needs.emplace_back();
    const std::vector<int>& ranks = group(rank, call.axes);
    const auto need = [&](int peer, const Line& own, const Line& other) {
      needs.push_back({peer, other, mine.lines[own].size()});
    };
    for (const IssuedMessage& m : call.messages) {
      const int peer = ranks[static_cast<size_t>(m.peer)];
      const Line own{call.axes, peer, m.sends};
      need(peer, own, {call.axes, rank, !m.sends});
      mine.lines[own].push_back(index);
    }
    if (call.form == PurposeForm::Exchange) return;
    const Line own{call.axes};
    for (const int peer : ranks)
      if (peer != rank) need(peer, own, own);
    mine.lines[own].push_back(index);
  }

  /// The call of another rank that this one waits for; nullptr: there is none.
  const size_t* other(const Need& need) {
    const auto& calls = of(need.rank).lines[need.line];
    return need.number < calls.size() ? &calls[need.number] : nullptr;
  }
  bool met(const Need& need) {
    const size_t* call = other(need);
    return call != nullptr && of(need.rank).at >= *call;
  }
  /// Both are of the same purpose, too.
  bool same(int rank, const Need& need) {
    return need.line.peer >= 0 ||
           byRank_[static_cast<size_t>(need.rank)][*other(need)].purpose == current(rank).purpose;
  }
  const IssuedCall& current(int rank) { return byRank_[static_cast<size_t>(rank)][of(rank).at]; }

  bool advance(int rank) {
    Rank& mine = of(rank);
    if (mine.at == mine.needs.size()) return false;
    for (const Need& need : mine.needs[mine.at])
      if (!met(need) || !same(rank, need)) return false;
    ++mine.at;
    return true;
  }

  std::string whyStuck(int rank) {
    const std::string who =
        message("rank ", rank, " waits in call ", of(rank).at, ", ", describe(current(rank)));
    for (const Need& need : of(rank).needs[of(rank).at]) {
      const size_t* call = other(need);
      const IssueOrder& theirs = byRank_[static_cast<size_t>(need.rank)];
      if (call == nullptr) return message(who, ", for rank ", need.rank, ", which makes no such");
      if (!met(need))
        return message(who, ", for rank ", need.rank, ", which is in call ", of(need.rank).at, ", ",
                       describe(theirs[of(need.rank).at]));
      if (!same(rank, need))
        return message(who, ", where rank ", need.rank, " has ", describe(theirs[*call]));
    }
    fail(ErrorCode::Internal, who, ", for nothing");
  }

  const MeshShape shape_;
  const std::span<const IssueOrder> byRank_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::optional<std::string> unfinishedOrder(const MeshShape& shape,
                                           std::span<const IssueOrder> byRank) {
  require(static_cast<int>(byRank.size()) == shape.ranks(), "the calls of ", byRank.size(),
          " ranks, of a mesh of ", shape.describe());
  return IssueWalk(shape, byRank).run();
}

}  // namespace tutti::parallel
