#include "src/plan/expression.h"

#include <algorithm>
#include <array>
#include <bit>

#include "src/base/check.h"

namespace tutti::plan {
namespace {

constexpr size_t kLongestPrint = 160;

}  // namespace

Expressions::Expressions(int ranks, uint32_t inputChunks, int rounds)
    : ranks_(ranks), inputChunks_(inputChunks), rounds_(rounds), table_(1024, kUninitialised) {
  nodes_.resize(1 + static_cast<size_t>(ranks) * inputChunks * static_cast<size_t>(rounds));
  size_t next = 1;
  for (int rank = 0; rank < ranks; ++rank)
    for (uint32_t chunk = 0; chunk < inputChunks; ++chunk)
      for (int round = 0; round < rounds; ++round)
        nodes_[next++] = {Kind::Leaf, static_cast<uint8_t>(round), chunk, 1, rank,
                          rank + 1,   static_cast<uint32_t>(rank)};
}

ExpressionId Expressions::leaf(int rank, uint32_t chunk, int round) const {
  const auto r = static_cast<uint32_t>(rank);
  return 1 + (r * inputChunks_ + chunk) * static_cast<uint32_t>(rounds_) +
         static_cast<uint32_t>(round);
}

ExpressionId Expressions::fold(Fold fold, std::span<const ExpressionId> operands) {
  if (operands.size() == 2) {  // commutative
    const std::array pair{std::min(operands[0], operands[1]), std::max(operands[0], operands[1])};
    return intern({.kind = Kind::Listed}, pair);
  }
  return intern({.kind = fold == Fold::Canonical ? Kind::Canonical : Kind::Listed}, operands);
}

ExpressionId Expressions::complete(ExpressionId sum, bool stored) {
  return intern({.kind = stored ? Kind::CompleteStored : Kind::Complete}, std::span(&sum, 1));
}

/// Two neighbouring aligned subtrees make a larger one when they are its two halves. The right half
/// may be cut short: then what they make is the left end of no larger one.
std::pair<int, int> Expressions::join(std::pair<int, int> a, std::pair<int, int> b) {
  if (a.first > b.first) std::swap(a, b);
  if (a.first == a.second || b.first == b.second || a.second != b.first) return {};
  const int half = a.second - a.first;
  const bool aligned =
      std::has_single_bit(static_cast<unsigned>(half)) && a.first % (2 * half) == 0;
  if (!aligned || b.second > a.first + 2 * half) return {};
  return {a.first, b.second};
}

std::pair<int, int> Expressions::canonicalSpan(std::span<const ExpressionId> operands) const {
  const auto n = operands.size();
  if (n == 1) return {nodes_[operands[0]].first, nodes_[operands[0]].last};
  const size_t left = std::bit_ceil(n) / 2;
  return join(canonicalSpan(operands.first(left)), canonicalSpan(operands.subspan(left)));
}

void Expressions::setSpan(Node& node, std::span<const ExpressionId> operands) const {
  std::pair<int, int> span{nodes_[operands[0]].first, nodes_[operands[0]].last};
  if (node.kind == Kind::Canonical) {
    span = canonicalSpan(operands);
  } else {
    for (ExpressionId operand : operands.subspan(1))
      span = join(span, {nodes_[operand].first, nodes_[operand].last});
  }
  node.first = span.first;
  node.last = span.second;
}

uint64_t Expressions::hashOf(const Node& node, std::span<const ExpressionId> operands) const {
  uint64_t hash = static_cast<uint64_t>(node.kind);
  for (ExpressionId operand : operands) {
    hash = (hash ^ operand) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

ExpressionId Expressions::intern(Node node, std::span<const ExpressionId> operands) {
  if (2 * stored_ >= table_.size()) grow();
  size_t slot = hashOf(node, operands) & (table_.size() - 1);
  for (; table_[slot] != kUninitialised; slot = (slot + 1) & (table_.size() - 1)) {
    const Node& other = nodes_[table_[slot]];
    if (other.kind == node.kind && std::ranges::equal(operandsOf(other), operands))
      return table_[slot];
  }
  node.round = nodes_[operands[0]].round;
  node.chunk = nodes_[operands[0]].chunk;
  // Sums that are doubled again and again would come round to few leaves.
  uint64_t leaves = 0;
  for (ExpressionId operand : operands) leaves += nodes_[operand].leaves;
  node.leaves = static_cast<uint32_t>(std::min<uint64_t>(leaves, UINT32_MAX));
  setSpan(node, operands);
  node.operands = static_cast<uint32_t>(operands_.size());
  node.count = static_cast<uint32_t>(operands.size());
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  const auto id = static_cast<ExpressionId>(nodes_.size());
  nodes_.push_back(node);
  table_[slot] = id;
  ++stored_;
  return id;
}

void Expressions::grow() {
  std::vector<ExpressionId> old(table_.size() * 2, kUninitialised);
  old.swap(table_);
  for (ExpressionId id : old) {
    if (id == kUninitialised) continue;
    size_t slot = hashOf(nodes_[id], operandsOf(nodes_[id])) & (table_.size() - 1);
    while (table_[slot] != kUninitialised) slot = (slot + 1) & (table_.size() - 1);
    table_[slot] = id;
  }
}

void Expressions::countRanks(ExpressionId id, std::vector<uint32_t>& counts) const {
  const Node& node = nodes_[id];
  if (node.kind == Kind::Leaf) ++counts[node.operands];
  if (node.kind == Kind::Leaf) return;
  for (ExpressionId operand : operandsOf(node)) countRanks(operand, counts);
}

std::string Expressions::faultOfSum(ExpressionId id, int addends) const {
  // Doubling a sum again and again makes a tree too large to walk, and a wrong one.
  if (nodes_[id].leaves > 4 * static_cast<uint32_t>(ranks_)) return "ranks enter many times";
  std::vector<uint32_t> counts(static_cast<size_t>(ranks_), 0);
  countRanks(id, counts);
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const bool enters = rank < static_cast<size_t>(addends);
    if (counts[rank] != (enters ? 1 : 0))
      return base::message("rank ", rank, " enters ", counts[rank], " times, not ",
                           enters ? "once" : "at all");
  }
  return {};
}

std::string Expressions::print(ExpressionId id) const {
  if (id == kUninitialised) return "nothing";
  std::string text;
  print(id, text);
  if (text.size() > kLongestPrint) text = text.substr(0, kLongestPrint) + "...";
  return base::message(text, " of in ", nodes_[id].chunk, ", round ", int{nodes_[id].round});
}

void Expressions::print(ExpressionId id, std::string& text) const {
  const Node& node = nodes_[id];
  if (text.size() > kLongestPrint) return;
  if (node.kind == Kind::Leaf) {
    text += std::to_string(node.operands);
  } else if (node.kind == Kind::Complete) {
    print(operands_[node.operands], text);
  } else if (node.kind == Kind::CompleteStored) {
    text += "stored ";
    print(operands_[node.operands], text);
  } else {
    text += node.kind == Kind::Canonical ? "tree(" : "(";
    for (uint32_t i = 0; i < node.count; ++i) {
      if (i > 0) text += node.kind == Kind::Canonical ? "," : "+";
      print(operands_[node.operands + i], text);
    }
    text += ")";
  }
}

}  // namespace tutti::plan
