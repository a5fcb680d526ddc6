#pragma once

// Byte-pair encoding ("Neural Machine Translation of Rare Words with Subword Units"): a word begins
// as its bytes' tokens, and of all neighbours that a merge joins those whose merge comes first in
// the list are joined, leftmost first, until there are none. Time n log n for n bytes.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti::parallel {

class Bpe {
 public:
  struct Merge {
    int32_t left = 0, right = 0, joined = 0;
  };
  /// `bytes`: the token of each byte. `merges`: in their order, each pair once.
  Bpe(const std::array<int32_t, 256>& bytes, const std::vector<Merge>& merges);
  /// Appends the tokens of `word` to `ids`. Thread safe.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Rule {
    uint32_t rank = 0;  ///< in the list of merges
    int32_t joined = 0;
  };
  const Rule* ruleOf(int32_t left, int32_t right) const;

  const std::array<int32_t, 256> bytes_;
  std::unordered_map<uint64_t, Rule> rules_;  ///< by both tokens
};

}  // namespace tutti::parallel
