#pragma once

// What a chunk holds, as an expression over the ranks' inputs. Expressions are hash-consed: equal
// ones have equal numbers, so replicas are compared by one integer. Used by the checker alone.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan {

using ExpressionId = uint32_t;
inline constexpr ExpressionId kUninitialised = 0;

class Expressions {
 public:
  Expressions(int ranks, uint32_t inputChunks, int rounds);

  /// Rank `rank`'s input chunk of one round.
  ExpressionId leaf(int rank, uint32_t chunk, int round) const;
  /// The sum that one step makes of at least two operands.
  ExpressionId fold(Fold fold, std::span<const ExpressionId> operands);
  /// `sum` marked as the whole reduction, where it is divided. `stored`: by a step that copies it
  /// and not by the one that folds it, so it has been rounded before.
  ExpressionId complete(ExpressionId sum, bool stored);

  bool isComplete(ExpressionId id) const {
    return nodes_[id].kind == Kind::Complete || nodes_[id].kind == Kind::CompleteStored;
  }
  /// Both stand for the same elements of a block.
  bool sameElements(ExpressionId a, ExpressionId b) const {
    return nodes_[a].chunk == nodes_[b].chunk && nodes_[a].round == nodes_[b].round;
  }
  /// The expression is the aligned binary tree over the first `addends` ranks.
  bool isCanonical(ExpressionId id, int addends) const {
    return nodes_[id].first == 0 && nodes_[id].last == addends;
  }
  /// What is wrong with `id` as a sum over the first `addends` ranks; empty when each enters once
  /// and no other does.
  std::string faultOfSum(ExpressionId id, int addends) const;
  /// "((0+1)+2) of in 3" with the ranks as operands; long ones are cut.
  std::string print(ExpressionId id) const;

 private:
  enum class Kind : uint8_t { None, Leaf, Listed, Canonical, Complete, CompleteStored };
  struct Node {
    Kind kind = Kind::None;
    uint8_t round = 0;
    uint32_t chunk = 0;
    uint32_t leaves = 0;
    int32_t first = 0, last = 0;       // ranks of the aligned subtree that this is; equal when none
    uint32_t operands = 0, count = 0;  // in operands_; a leaf's rank is `operands`
  };

  ExpressionId intern(Node node, std::span<const ExpressionId> operands);
  void setSpan(Node& node, std::span<const ExpressionId> operands) const;
  static std::pair<int, int> join(std::pair<int, int> a, std::pair<int, int> b);
  std::pair<int, int> canonicalSpan(std::span<const ExpressionId> operands) const;
  void grow();
  uint64_t hashOf(const Node& node, std::span<const ExpressionId> operands) const;
  std::span<const ExpressionId> operandsOf(const Node& node) const {
    return {operands_.data() + node.operands, node.count};
  }
  void countRanks(ExpressionId id, std::vector<uint32_t>& counts) const;
  void print(ExpressionId id, std::string& text) const;

  int ranks_;
  uint32_t inputChunks_;
  int rounds_;
  std::vector<Node> nodes_;
  std::vector<ExpressionId> operands_;
  std::vector<ExpressionId> table_;  // open addressing, a power of two long
  size_t stored_ = 0;
};

}  // namespace tutti::plan
