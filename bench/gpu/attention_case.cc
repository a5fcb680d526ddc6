#include "bench/gpu/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "parallel/tensor/check.h"
#include "parallel/tensor/random.h"

namespace tutti::bench {

using parallel::require;

namespace {

/// Elements of a sequence of periods: a prime, so that no two rows are alike.
constexpr int64_t kPeriod = 1'048'573;
/// Queries and keys are up to so many eighths. Scores deviate by about 3 of heads of any width, and
/// a query looks at few keys: one that is missed or doubled shows.
constexpr int kMostEighths = 24;
constexpr int kCheckedRows = 6;

/// Of what a result sums up the absolute values may be off by so much together: bfloat16 rounds
/// weights and gradients of scores before they are multiplied, outputs before they are read again,
/// and results, by 2^-9 each; what float32 adds to that, also in the logarithm of a sum of 2^14
/// and the exponentials of scores below 2^6, is less than another.
constexpr double kRounding = 4 * 0x1p-9;

/// The logarithm of a sum is float32 throughout, of scores below 2^6.
constexpr double kLogarithm = 0x1p-12;

double dot(const double* x, const double* y, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

double absoluteDot(const double* x, const double* y, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::abs(x[i] * y[i]);
  return sum;
}

}  // namespace

AttentionShape AttentionShape::parse(const std::string& text) {
  long long batch = 0, heads = 0, width = 0, context = 0;
  char kind[8] = "", more = 0;
  const int count = std::sscanf(text.c_str(), "%lldx%lldx%lldx%lld:%7s%c", &batch, &heads, &width,
                                &context, kind, &more);
  const std::string word = kind;
  require(count == 5 && std::min({batch, heads, width, context}) > 0 &&
              std::max({batch, heads, width, context}) < (1 << 20) &&
              (word == "causal" || word == "all"),
          text, " is not BATCHxHEADSxWIDTHxCONTEXT:causal or :all");
  return {batch, heads, width, context, word == "causal"};
}

std::string AttentionShape::describe() const {
  return parallel::message(batch, "x", heads, "x", width, "x", context,
                           causal ? ":causal" : ":all");
}

double AttentionShape::operations(bool backward) const {
  const auto c = static_cast<double>(context);
  const double pairs = causal ? c * (c + 1) / 2 : c * c;
  return (backward ? 10 : 4) * static_cast<double>(batch * heads * width) * pairs;
}

AttentionCase::AttentionCase(Gpu& gpu, const AttentionShape& shape) : gpu_(gpu), shape_(shape) {
  const int64_t columns = shape.heads * shape.width;
  qkv_ = gpu.repeated(DType::BFloat16, {shape.batch, shape.context, 3 * columns},
                      eighths(kPeriod, kMostEighths, 1));
  const Shape sequences{shape.batch, shape.context, columns};
  dOut_ = gpu.repeated(DType::BFloat16, sequences, eighths(kPeriod, kMostEighths, 2));
  out_ = gpu.allocate(DType::BFloat16, sequences);
  logSumExp_ = gpu.allocate(DType::Float32, {shape.batch, shape.heads, shape.context});
  dQkv_ = gpu.allocate(DType::BFloat16, qkv_.shape);
}

/// Queries, keys or values.
Tensor AttentionCase::partOf(const Tensor& qkv, int part) const {
  const int64_t columns = shape_.heads * shape_.width;
  return qkv.part(2, part * columns, columns);
}

parallel::AttentionBlockArgs AttentionCase::block() const {
  return {.query = partOf(qkv_, 0),
          .key = partOf(qkv_, 1),
          .value = partOf(qkv_, 2),
          .out = out_,
          .logSumExp = logSumExp_,
          .heads = shape_.heads,
          .kvHeads = shape_.heads,
          .firstQuery = shape_.context};
}

void AttentionCase::forward() {
  if (!shape_.causal) return gpu_.kernels().attentionBlock(block(), scratch_);
  gpu_.kernels().attention({.qkv = qkv_,
                            .out = out_,
                            .logSumExp = logSumExp_,
                            .heads = shape_.heads,
                            .kvHeads = shape_.heads},
                           scratch_);
}

void AttentionCase::backward() {
  const auto b = block();
  if (shape_.causal)
    return gpu_.kernels().attentionBackward({.dOut = dOut_,
                                             .qkv = qkv_,
                                             .out = out_,
                                             .logSumExp = logSumExp_,
                                             .dQkv = dQkv_,
                                             .heads = shape_.heads,
                                             .kvHeads = shape_.heads},
                                            scratch_);
  gpu_.kernels().attentionBlockBackward({.dOut = dOut_,
                                         .query = b.query,
                                         .key = b.key,
                                         .value = b.value,
                                         .out = out_,
                                         .logSumExp = logSumExp_,
                                         .dQuery = partOf(dQkv_, 0),
                                         .dKey = partOf(dQkv_, 1),
                                         .dValue = partOf(dQkv_, 2),
                                         .heads = shape_.heads,
                                         .kvHeads = shape_.heads,
                                         .firstQuery = shape_.context},
                                        scratch_);
}

/// Its rows of every tensor, those of the GPU's results too.
struct AttentionCase::Head {
  int64_t width = 0;
  std::vector<double> query, key, value, dOut, out, logSumExp, dQuery, dKey, dValue;
  const double* row(const std::vector<double>& x, int64_t i) const {
    return &x[static_cast<size_t>(i * width)];
  }
};

AttentionCase::Head AttentionCase::lastHead() const {
  Head head{.width = shape_.width};
  const auto rowsOf = [&](const Tensor& x, int64_t columns, int64_t first) {
    const std::vector<float> all = gpu_.read(x.rows(shape_.batch - 1, 1));
    std::vector<double> rows;
    rows.reserve(static_cast<size_t>(shape_.context * shape_.width));
    for (int64_t i = 0; i < shape_.context; ++i)
      for (int64_t j = 0; j < shape_.width; ++j)
        rows.push_back(static_cast<double>(all[static_cast<size_t>(i * columns + first + j)]));
    return rows;
  };
  const int64_t columns = shape_.heads * shape_.width, last = columns - shape_.width;
  std::vector<double>* const read[]{&head.query, &head.key, &head.value};
  std::vector<double>* const written[]{&head.dQuery, &head.dKey, &head.dValue};
  for (int part = 0; part < 3; ++part) {
    *read[part] = rowsOf(qkv_, 3 * columns, part * columns + last);
    *written[part] = rowsOf(dQkv_, 3 * columns, part * columns + last);
  }
  head.dOut = rowsOf(dOut_, columns, last);
  head.out = rowsOf(out_, columns, last);
  const std::vector<float> sums = gpu_.read(logSumExp_.rows(shape_.batch - 1, 1));
  head.logSumExp.assign(sums.end() - shape_.context, sums.end());
  return head;
}

void AttentionCase::check() {
  for (const Tensor& x : {out_, dQkv_, logSumExp_}) gpu_.kernels().fillZero(x);
  forward();
  backward();
  const Head head = lastHead();
  const parallel::Random random(3, shape_.describe());
  for (uint64_t i = 0; i < kCheckedRows; ++i) {
    const auto any = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(shape_.context)));
    const int64_t row = i == 0 ? 0 : i == 1 ? shape_.context - 1 : any;
    checkQuery(head, row);
    checkKey(head, row);
  }
}

/// Its output, the logarithm of its sum, which checkKey() relies on, and its gradient.
void AttentionCase::checkQuery(const Head& h, int64_t query) const {
  const int64_t keys = shape_.causal ? query + 1 : shape_.context, width = shape_.width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const double* const dOut = h.row(h.dOut, query);
  std::vector<double> weights(static_cast<size_t>(keys));
  double largest = -INFINITY, sum = 0;
  for (int64_t k = 0; k < keys; ++k) {
    weights[static_cast<size_t>(k)] = scale * dot(h.row(h.query, query), h.row(h.key, k), width);
    largest = std::max(largest, weights[static_cast<size_t>(k)]);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  requireNear("the logarithm of its sum", query, 0, h.logSumExp[static_cast<size_t>(query)],
              largest + std::log(sum), kLogarithm);
  std::vector<double> out(static_cast<size_t>(width)), outSize(out), gradient(out),
      gradientSize(out);
  for (int64_t k = 0; k < keys; ++k)
    for (int64_t j = 0; j < width; ++j) {
      const double part = weights[static_cast<size_t>(k)] / sum * h.row(h.value, k)[j];
      out[static_cast<size_t>(j)] += part;
      outSize[static_cast<size_t>(j)] += std::abs(part);
    }
  const double delta = dot(dOut, out.data(), width),
               deltaSize = absoluteDot(dOut, out.data(), width);
  for (int64_t k = 0; k < keys; ++k) {
    const double weight = weights[static_cast<size_t>(k)] / sum * scale;
    const double score = dot(dOut, h.row(h.value, k), width);
    for (int64_t j = 0; j < width; ++j) {
      gradient[static_cast<size_t>(j)] += weight * (score - delta) * h.row(h.key, k)[j];
      gradientSize[static_cast<size_t>(j)] +=
          weight * (std::abs(score) + deltaSize) * std::abs(h.row(h.key, k)[j]);
    }
  }
  for (int64_t j = 0; j < width; ++j) {
    const auto at = static_cast<size_t>(j);
    requireNear("output of query", query, j, h.row(h.out, query)[j], out[at],
                kRounding * outSize[at]);
    requireNear("gradient of query", query, j, h.row(h.dQuery, query)[j], gradient[at],
                kRounding * gradientSize[at]);
  }
}

/// The gradients of it and of its value, by the GPU's outputs and logarithms.
void AttentionCase::checkKey(const Head& h, int64_t key) const {
  const int64_t width = shape_.width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  std::vector<double> ofKey(static_cast<size_t>(width)), keySize(ofKey), ofValue(ofKey),
      valueSize(ofKey);
  for (int64_t q = shape_.causal ? key : 0; q < shape_.context; ++q) {
    const double* const dOut = h.row(h.dOut, q);
    const double weight = std::exp(scale * dot(h.row(h.query, q), h.row(h.key, key), width) -
                                   h.logSumExp[static_cast<size_t>(q)]);
    const double score = dot(dOut, h.row(h.value, key), width);
    const double delta = dot(dOut, h.row(h.out, q), width);
    const double size = std::abs(score) + absoluteDot(dOut, h.row(h.out, q), width);
    for (int64_t j = 0; j < width; ++j) {
      const auto at = static_cast<size_t>(j);
      const double query = h.row(h.query, q)[j];
      ofKey[at] += weight * scale * (score - delta) * query;
      keySize[at] += weight * scale * size * std::abs(query);
      ofValue[at] += weight * dOut[j];
      valueSize[at] += weight * std::abs(dOut[j]);
    }
  }
  for (int64_t j = 0; j < width; ++j) {
    const auto at = static_cast<size_t>(j);
    requireNear("gradient of key", key, j, h.row(h.dKey, key)[j], ofKey[at],
                kRounding * keySize[at]);
    requireNear("gradient of value", key, j, h.row(h.dValue, key)[j], ofValue[at],
                kRounding * valueSize[at]);
  }
}

void AttentionCase::requireNear(const char* what, int64_t row, int64_t column, double got,
                                double want, double bound) const {
  // Below is what float32 may leave of numbers that cancel, and what bfloat16 has no bits for.
  if (std::abs(got - want) <= bound + 0x1p-20) return;
  parallel::fail(ErrorCode::Internal, shape_.describe(), ": ", what, " ", row, ", column ", column,
                 ", is ", got, " and not ", want);
}

}  // namespace tutti::bench
