#include "tests/parallel/kernels/attention_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::parallel {

namespace {

Near nothing(int64_t count) {
  const auto size = static_cast<size_t>(count);
  return {std::vector<double>(size), std::vector<double>(size)};
}

/// A product of two rows, and the sum of its terms' sizes.
struct Product {
  double value = 0, size = 0;
  Product(const std::vector<double>& a, int64_t atA, const std::vector<double>& b, int64_t atB,
          int64_t width) {
    for (int64_t i = 0; i < width; ++i) {
      const double term = a[static_cast<size_t>(atA + i)] * b[static_cast<size_t>(atB + i)];
      value += term;
      size += std::fabs(term);
    }
  }
};

/// x[at + i] += weight * row[from + i], where the weight errs by `error`.
void addRow(Near& x, int64_t at, double weight, double error, const std::vector<double>& row,
            int64_t from, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    const double element = row[static_cast<size_t>(from + i)];
    x.values[static_cast<size_t>(at + i)] += weight * element;
    x.bounds[static_cast<size_t>(at + i)] += error * std::fabs(element);
  }
}

template <class Visit>
void forEachRow(const PairSizes& s, const Visit& visit) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t q = 0; q < s.queries; ++q) visit(b, h, q);
}

int64_t documentOf(const PairSizes& s, int64_t sequence, int64_t position) {
  const auto documents = static_cast<std::ptrdiff_t>(s.starts.size()) / s.batch;
  const auto first = s.starts.begin() + sequence * documents;
  return std::count_if(first, first + documents, [&](int32_t start) { return start <= position; });
}

double scaleOf(const PairSizes& s) { return 1 / std::sqrt(static_cast<double>(s.headWidth)); }

/// Of a weight exp(score * scale - shift), relatively: a rounding for each product of the score and
/// each of their sums, some of what is left of them, and some of the exponential.
double errorOfWeight(const PairSizes& s, const Product& score, double shift, double step) {
  const double terms = static_cast<double>(s.headWidth + 8);
  return step * (terms * scaleOf(s) * score.size + 4 * std::fabs(shift) + 8);
}

}  // namespace

bool PairSizes::sees(int64_t sequence, int64_t query, int64_t key) const {
  const int64_t ofQuery = firstQuery + query, ofKey = firstKey + key;
  return ofKey <= ofQuery && (window == 0 || ofQuery - ofKey < window) &&
         documentOf(*this, sequence, ofKey) == documentOf(*this, sequence, ofQuery);
}

PairForward pairForward(const PairSizes& s, const std::vector<double>& query,
                        const std::vector<double>& key, const std::vector<double>& value,
                        const PairRounding& rounding) {
  PairForward result{nothing(s.queryCount()), nothing(s.rowCount())};
  forEachRow(s, [&](int64_t b, int64_t h, int64_t q) {
    std::vector<int64_t> seen;
    std::vector<Product> scores;
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < s.keys; ++k)
      if (s.sees(b, q, k)) {
        seen.push_back(k);
        scores.emplace_back(query, s.queryAt(b, h, q), key, s.keyAt(b, h, k), s.headWidth);
        most = std::max(most, scores.back().value * scaleOf(s));
      }
    double total = 0, ofTotal = 0;  // the largest error of a weight is at most that of their sum
    for (const Product& score : scores) {
      total += std::exp(score.value * scaleOf(s) - most);
      ofTotal = std::max(ofTotal, errorOfWeight(s, score, most, rounding.step));
    }
    ofTotal += static_cast<double>(seen.size()) * rounding.step;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double weight = std::exp(scores[i].value * scaleOf(s) - most) / total;
      addRow(result.out, s.queryAt(b, h, q), weight,
             weight * (rounding.weight + 3 * ofTotal) + rounding.least, value,
             s.keyAt(b, h, seen[i]), s.headWidth);
    }
    const auto row = static_cast<size_t>(s.rowAt(b, h, q));
    result.logSumExp.values[row] = most + (seen.empty() ? 0 : std::log(total));
    result.logSumExp.bounds[row] = ofTotal;
  });
  return result;
}

PairBackward pairBackward(const PairSizes& s, const PairGiven& x, const PairRounding& rounding) {
  PairBackward result{nothing(s.queryCount()), nothing(s.keyCount()), nothing(s.keyCount())};
  const double scale = scaleOf(s), step = rounding.step;
  // Sums of this many terms, of which each adds a rounding of the sum so far.
  const double terms =
      static_cast<double>(std::max(s.keys, s.queries * s.heads / s.kvHeads) + 8) * step;
  forEachRow(s, [&](int64_t b, int64_t h, int64_t q) {
    const int64_t query = s.queryAt(b, h, q);
    const double sum = x.logSumExp[static_cast<size_t>(s.rowAt(b, h, q))];
    const Product dot(x.dOut, query, x.out, query, s.headWidth);
    for (int64_t k = 0; k < s.keys; ++k) {
      if (!s.sees(b, q, k)) continue;
      const int64_t key = s.keyAt(b, h, k);
      const Product score(x.query, query, x.key, key, s.headWidth);
      const Product product(x.dOut, query, x.value, key, s.headWidth);
      const double weight = std::exp(score.value * scale - sum);
      const double ofWeight = errorOfWeight(s, score, sum, step) + rounding.weight;
      const double dScore = weight * (product.value - dot.value) * scale;
      const double ofProducts =
          static_cast<double>(s.headWidth + 8) * step * (product.size + dot.size);
      const double ofScore = std::fabs(dScore) * (ofWeight + terms) +
                             scale * (weight * ofProducts * (1 + ofWeight) + rounding.least);
      addRow(result.dQuery, query, dScore, ofScore, x.key, key, s.headWidth);
      addRow(result.dKey, key, dScore, ofScore, x.query, query, s.headWidth);
      addRow(result.dValue, key, weight, weight * (ofWeight + terms) + rounding.least, x.dOut,
             query, s.headWidth);
    }
  });
  return result;
}

}  // namespace tutti::parallel
