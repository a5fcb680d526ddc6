#include "parallel/tokenizer/bpe.h"

#include <functional>
#include <queue>
#include <tuple>

namespace tutti::parallel {

namespace {

uint64_t pairOf(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

/// A token of the word, in a list. One that was joined to its left has id -1.
struct Symbol {
  int32_t id = 0;
  int64_t before = -1, after = -1;
};

/// Two neighbours that a merge joins, as they were when this was noted.
struct MergeCandidate {
  uint32_t rank = 0;
  int64_t left = 0;
  int32_t joined = 0;
  bool operator>(const MergeCandidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

Bpe::Bpe(const std::array<int32_t, 256>& bytes, const std::vector<Merge>& merges) : bytes_(bytes) {
  rules_.reserve(merges.size());
  for (uint32_t rank = 0; rank < merges.size(); ++rank)
    rules_[pairOf(merges[rank].left, merges[rank].right)] = {rank, merges[rank].joined};
}

const Bpe::Rule* Bpe::ruleOf(int32_t left, int32_t right) const {
  const auto found = rules_.find(pairOf(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<Symbol> symbols(word.size());
  for (size_t i = 0; i < word.size(); ++i)
    symbols[i] = {bytes_[static_cast<unsigned char>(word[i])], static_cast<int64_t>(i) - 1,
                  i + 1 < word.size() ? static_cast<int64_t>(i) + 1 : -1};
  const auto at = [&](int64_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::priority_queue<MergeCandidate, std::vector<MergeCandidate>, std::greater<>> candidates;
  const auto note = [&](int64_t left) {
    if (left < 0 || at(left).after < 0) return;
    if (const Rule* rule = ruleOf(at(left).id, at(at(left).after).id))
      candidates.push({rule->rank, left, rule->joined});
  };
  for (size_t i = 0; i < word.size(); ++i) note(static_cast<int64_t>(i));
  while (!candidates.empty()) {
    const MergeCandidate next = candidates.top();
    candidates.pop();
    Symbol& left = at(next.left);
    if (left.id < 0 || left.after < 0) continue;
    Symbol& right = at(left.after);
    const Rule* rule = ruleOf(left.id, right.id);
    if (rule == nullptr || rule->rank != next.rank) continue;  // one of them has been joined since
    left.id = next.joined;
    right.id = -1;
    left.after = right.after;
    if (left.after >= 0) at(left.after).before = next.left;
    note(left.before);
    note(next.left);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.id >= 0) ids.push_back(symbol.id);
}

}  // namespace tutti::parallel
