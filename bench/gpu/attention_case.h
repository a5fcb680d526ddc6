#pragma once

// One attention that is timed: its operands on the GPU, our calls, and what they must give.

#include <string>

#include "bench/gpu/gpu.h"

namespace tutti::bench {

/// `batch` sequences of `context` tokens, `heads` of queries, keys and values of `width` columns
/// each, in bfloat16. Where it is not causal every query sees every key.
struct AttentionShape {
  int64_t batch = 1, heads = 1, width = 64, context = 1;
  bool causal = true;
  /// "4x16x128x2048:causal", or ":all".
  static AttentionShape parse(const std::string& text);
  std::string describe() const;
  /// Floating-point operations of two products forward and five backward, of keys that queries see.
  double operations(bool backward) const;
};

class AttentionCase {
 public:
  /// Operands lie on the GPU until it is cleared.
  AttentionCase(Gpu& gpu, const AttentionShape& shape);

  /// Calls of this library: attention() where it is causal; where not, attentionBlock() of queries
  /// that come behind all keys, whose backward adds to gradients.
  void forward();
  void backward();
  /// Runs both and compares some queries and keys of the last head with float64 on the host. Throws
  /// Internal, saying where, when one is wrong.
  void check();

 private:
  struct Head;  // on the host
  Tensor partOf(const Tensor& qkv, int part) const;
  parallel::AttentionBlockArgs block() const;
  Head lastHead() const;
  void checkQuery(const Head& head, int64_t query) const;
  void checkKey(const Head& head, int64_t key) const;
  void requireNear(const char* what, int64_t row, int64_t column, double got, double want,
                   double bound) const;

  Gpu& gpu_;
  AttentionShape shape_;
  parallel::Arena scratch_{"attention"};
  Tensor qkv_, dOut_, out_, logSumExp_, dQkv_;
};

}  // namespace tutti::bench
