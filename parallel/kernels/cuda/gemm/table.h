#pragma once

// What was measured of products: choices that a file has for shapes, as tune_gemm (bench/gpu)
// writes it, in place of those that the model of costs makes. A line of it is
//
//   4096 768 3072 nt 16 wgmma,together,columns=256,cluster=2,splits=1
//   768 3072 4096 tn 16to32 wgmma,together,columns=192,cluster=1,splits=1
//
// rows, columns, depth, how a and b are stored (n: as they are multiplied, t: transposed), bits of
// elements, and words as TUTTI_GEMM has them. Bits are 16 or 32 where the result has the operands',
// and 16to32 where it is float32 of operands of 16 bits, as gradients of weights are, whether it is
// overwritten or added to. What follows # is a comment.

#include <compare>
#include <map>
#include <string>

#include "parallel/kernels/cuda/gemm/choice.h"

namespace tutti::parallel::cuda {

struct GemmKey {
  int64_t rows, columns, depth;
  bool isTransposedA, isTransposedB;
  int32_t bits, resultBits;  ///< of elements: 16 or 32
  auto operator<=>(const GemmKey&) const = default;
};

class GemmTable {
 public:
  /// Throws InvalidArgument, with the line that is wrong and its number behind the table's name.
  static GemmTable parse(const std::string& text, const std::string& name = "a table of products");
  /// Throws InvalidArgument where it cannot be read, and as parse() does.
  static GemmTable load(const std::string& path);

  /// Null where there is none.
  const GemmForced* find(const GemmKey& key) const;
  size_t size() const { return choices_.size(); }

 private:
  std::map<GemmKey, GemmForced> choices_;
};

/// A line of the file.
std::string lineOf(const GemmKey& key, const GemmChoice& choice);

/// How products are computed.
struct GemmOptions {
  GemmForced forced;
  GemmTable table;  ///< does not count where anything is forced
  /// TUTTI_GEMM and TUTTI_GEMM_TABLE.
  static GemmOptions fromEnvironment();
};

}  // namespace tutti::parallel::cuda
