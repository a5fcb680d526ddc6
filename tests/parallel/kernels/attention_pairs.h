#pragma once

// Attention by its definition, pair by pair of a query and a key in float64, and how far from it a
// kernel may be that rounds as it says. Tensors are contiguous: [batch, rows, heads * head width].

#include <cstdint>
#include <vector>

namespace tutti::parallel {

struct PairSizes {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kvHeads = 1, headWidth = 1;
  int64_t firstQuery = 0, firstKey = 0, window = 0;
  std::vector<int32_t> starts{};  ///< [batch, documents]

  int64_t queryCount() const { return batch * queries * heads * headWidth; }
  int64_t keyCount() const { return batch * keys * kvHeads * headWidth; }
  int64_t rowCount() const { return batch * heads * queries; }
  /// Of the query and the key of these numbers.
  bool sees(int64_t sequence, int64_t query, int64_t key) const;
  /// Where a row of a head begins; of queries, or of keys.
  int64_t queryAt(int64_t sequence, int64_t head, int64_t row) const {
    return ((sequence * queries + row) * heads + head) * headWidth;
  }
  int64_t keyAt(int64_t sequence, int64_t head, int64_t row) const {
    return ((sequence * keys + row) * kvHeads + head / (heads / kvHeads)) * headWidth;
  }
  int64_t rowAt(int64_t sequence, int64_t head, int64_t row) const {
    return (sequence * heads + head) * queries + row;
  }
};

/// What a kernel rounds.
struct PairRounding {
  double step = 0x1p-52;  ///< relatively, each operation of sums
  double weight = 0;      ///< relatively, probabilities and gradients of scores
  double least = 0;       ///< the same, of those too small for that
};

/// Values, and of each how far from it a result may be before it is rounded to its own type.
struct Near {
  std::vector<double> values, bounds;
};

struct PairForward {
  Near out, logSumExp;
};
PairForward pairForward(const PairSizes& sizes, const std::vector<double>& query,
                        const std::vector<double>& key, const std::vector<double>& value,
                        const PairRounding& rounding = {});

/// What backward is given; out and logSumExp are of all keys.
struct PairGiven {
  std::vector<double> dOut, query, key, value, out, logSumExp;
};
struct PairBackward {
  Near dQuery, dKey, dValue;
};
PairBackward pairBackward(const PairSizes& sizes, const PairGiven& given,
                          const PairRounding& rounding = {});

}  // namespace tutti::parallel
