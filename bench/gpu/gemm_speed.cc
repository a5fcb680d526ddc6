// gemm_speed [--seconds N] [--turns N] [--cublas FILE] [[BATCH*]ROWSxCOLUMNSxDEPTH:KIND ...]:
// products in bfloat16 by this library's kernels and by cuBLAS, in turns. KIND is forward (x w^T),
// dgrad (dy w) or wgrad (dy^T x, added to float32), each also as a batch of so many products with
// operands of their own, or forward with what an MLP makes of it on its way to memory (gelu with a
// bias, swiglu, residual with a bias) or dgrad with the backward form (dgelu, dswiglu): cuBLAS's
// product is then followed by this library's kernels for the rest. Without products: squares from
// 1024 to 16384, the MLPs of GPT-2 124M and Llama 3 8B with what they make of them, batches as the
// experts of Mixtral 8x7B and heads without flash attention have them, and the three kinds of every
// map of GPT-2 124M, Llama 3 8B and 70B at 4096, 8192 and 16384 tokens. A table with the ratio of
// medians, above 1 where ours is faster; then the geometric mean and the worst, of plain products,
// of batches and of those with more. What no time is left for is said. The exit status is 1 if a
// result is wrong.
//
// cuBLAS is called through its C functions, which are looked up when the program runs, and not by
// PyTorch: a toolkit is enough then, both compute on the same memory, and turns take milliseconds.
//
// Rows begin at multiples of 16 bytes, as a model's do. Operands are multiples of 1/8, whose sums
// have no rounding errors: elements of 16 rows, of a batch those of any product, must be what the
// host has, rounded once. cuBLAS may round partial sums to bfloat16, as its default is, so of its
// elements each may be off by sqrt(depth) / 64; a sum is about a third of sqrt(depth). An
// activation is approximate, too.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/bfloat16.h"
#include "bench/gpu/cublas.h"
#include "bench/gpu/gemm_epilogues.h"
#include "bench/gpu/gpu.h"
#include "parallel/tensor/check.h"
#include "parallel/tensor/random.h"

namespace tutti::bench {
namespace {

using parallel::message;
using parallel::require;

/// Elements before the content repeats: a prime, so that rows differ.
constexpr int64_t kPeriod = 1'048'573;
constexpr int64_t kCheckedRows = 16, kCheckedColumns = 32;

struct Product {
  int64_t rows, columns, depth;
  const ProductKind* kind;
  int64_t batch = 1;  ///< products
  std::string describe() const {
    const std::string one = message(rows, "x", columns, "x", depth, ":", kind->name);
    return batch == 1 ? one : message(batch, "*", one);
  }
  double operations() const {
    return 2 * static_cast<double>(batch) * static_cast<double>(rows) *
           static_cast<double>(columns) * static_cast<double>(depth);
  }
};

Product parse(const std::string& text) {
  long long batch = 1, rows = 0, columns = 0, depth = 0;
  char name[9] = "";
  char more = 0;
  const bool isBatch = text.find('*') != std::string::npos;
  char star = 0;
  const int ofBatch = isBatch ? std::sscanf(text.c_str(), "%lld%c", &batch, &star) : 2;
  const char* const one = text.c_str() + (isBatch ? text.find('*') + 1 : 0);
  const int count = std::sscanf(one, "%lldx%lldx%lld:%8s%c", &rows, &columns, &depth, name, &more);
  const ProductKind* const kind = findKind(name);
  require(ofBatch == 2 && (!isBatch || star == '*') && count == 4 &&
              std::min({batch, rows, columns, depth}) > 0 &&
              std::max({batch, rows, columns, depth}) < (1 << 30) && kind != nullptr,
          text, " is not [BATCH*]ROWSxCOLUMNSxDEPTH:KIND, where KIND is ", kindsInWords());
  require(!kind->hasEpilogue() || columns % 8 == 0, text, ": columns are no multiple of 8");
  require(!kind->hasEpilogue() || batch == 1, text,
          ": batches are of products without an epilogue");
  return {rows, columns, depth, kind, batch};
}

struct Map {
  int64_t in, out;
};
const std::vector<Map> kMaps{
    {768, 2304},   {768, 768},   {768, 3072},   {3072, 768},   {768, 50257},     // GPT-2 124M
    {4096, 6144},  {4096, 4096}, {4096, 28672}, {14336, 4096}, {4096, 128256},   // Llama 3 8B
    {8192, 10240}, {8192, 8192}, {8192, 57344}, {28672, 8192}, {8192, 128256}};  // and 70B

/// Squares first, then epilogues and batches, and then 8192 tokens: what time is left for is a
/// sample of all.
std::vector<Product> allProducts() {
  std::vector<Product> all;
  for (int64_t size = 1024; size <= 16384; size *= 2)
    all.push_back({size, size, size, findKind("forward")});
  for (const char* product :
       {"16384x3072x768:gelu", "16384x3072x768:dgelu", "16384x768x3072:residual",
        "8192x14336x4096:swiglu", "8192x14336x4096:dswiglu", "8*2048x14336x4096:forward",
        "8*2048x4096x14336:dgrad", "8*14336x4096x2048:wgrad", "192*1024x1024x64:forward"})
    all.push_back(parse(product));
  for (const int64_t tokens : {8192, 4096, 16384})
    for (const auto [in, out] : kMaps) {
      all.push_back({tokens, out, in, findKind("forward")});
      all.push_back({tokens, in, out, findKind("dgrad")});
      all.push_back({out, in, tokens, findKind("wgrad")});
    }
  return all;
}

class Bench {
 public:
  Bench(const std::string& cublas, int turns)
      : turns_(turns), periodA_(eighths(kPeriod, 8, 1)), periodB_(eighths(kPeriod, 8, 2)) {
    try {
      cublas_.emplace(cublas, gpu_.stream());
      std::printf("cuBLAS %s\n\n", cublas_->version().c_str());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unsupported || !cublas.empty()) throw;
      std::printf("against cuBLAS: not measured: %s\n\n", error.what());
    }
    std::printf("| product | TFLOP/s | cuBLAS | ratio |\n|---|---|---|---|\n");
  }

  void measure(const Product& product) {
    const GemmArgs args = operands(product);
    std::vector<Call> calls{[&] { gpu_.kernels().gemm(args); }};
    if (cublas_)
      calls.push_back(inParts(gpu_, args, [this](const GemmArgs& plain) { cublas_->gemm(plain); }));
    for (const Call& call : calls) {
      const Tensor rows = args.c.matrix();
      gpu_.kernels().fillZero({rows.data, rows.type, {rows.shape[0], rows.strides[0]}});
      call();
      const bool isOurs = &call == &calls[0];
      check(product, args, isOurs ? "" : " of cuBLAS",
            isOurs ? 0 : std::sqrt(static_cast<double>(product.depth)) / 64);
    }
    const std::vector<double> times = gpu_.inTurns(calls, turns_);
    gpu_.clear();
    const auto rate = [&](size_t i) { return product.operations() / times[i] / 1e6; };
    const std::string name = product.describe();
    if (cublas_) {
      std::printf("| %s | %.1f | %.1f | %.3f |\n", name.c_str(), rate(0), rate(1),
                  times[1] / times[0]);
      Ratios& ratios = product.kind->hasEpilogue() ? epilogues_
                       : product.batch > 1         ? batches_
                                                   : ratios_;
      ratios.add(name, times[1] / times[0]);
    } else {
      std::printf("| %s | %.1f | | |\n", name.c_str(), rate(0));
    }
    std::fflush(stdout);
  }

  std::string summary() const { return ratios_.describe(); }
  std::string summaryOfBatches() const { return batches_.describe(); }
  std::string summaryOfEpilogues() const { return epilogues_.describe(); }

 private:
  GemmArgs operands(const Product& p) {
    const ProductKind& kind = *p.kind;
    const Shape a = kind.transposeA ? Shape{p.depth, p.rows} : Shape{p.rows, p.depth};
    const Shape b = kind.transposeB ? Shape{p.columns, p.depth} : Shape{p.depth, p.columns};
    const bool isWeights = kind.transposeA;
    const Shape c{p.rows, kind.results(p.columns)};
    const auto own = [](const Tensor& x, const Shape& matrix) {
      return x.part(x.shape.rank() - 1, 0, matrix[1]);
    };
    return {.a = own(gpu_.repeated(DType::BFloat16, inRows(p, a), periodA_), a),
            .b = own(gpu_.repeated(DType::BFloat16, inRows(p, b), periodB_), b),
            .c = own(gpu_.allocate(isWeights ? DType::Float32 : DType::BFloat16, inRows(p, c)), c),
            .transposeA = kind.transposeA,
            .transposeB = kind.transposeB,
            .beta = isWeights ? 1.0 : 0.0,
            .epilogue = epilogueOf(gpu_, kind, {p.rows, p.columns}, periodA_)};
  }

  /// With what is between them, where rows of 16 bits begin at multiples of 16 bytes: logits of a
  /// model have such rows (Arena::allocateRows).
  static Shape inRows(const Product& p, const Shape& matrix) {
    const int64_t rows = matrix[0], columns = (matrix[1] + 7) / 8 * 8;
    return p.batch == 1 ? Shape{rows, columns} : Shape{p.batch, rows, columns};
  }
  /// The matrix of a product; x itself where there is one alone.
  static Tensor matrixOf(const Tensor& x, int64_t product) {
    return x.shape.rank() == 2 ? x : x.rows(product, 1).matrix();
  }

  Expected expected(const Product& p, const GemmArgs& args, int64_t product, int64_t row,
                    int64_t column) const {
    const auto number = [](const std::vector<float>& period, int64_t at) {
      return static_cast<double>(period[static_cast<size_t>(at % kPeriod)]);
    };
    double sum = 0;
    for (int64_t k = 0; k < p.depth; ++k)
      sum += number(periodA_, placeIn(args.a, args.transposeA, product, row, k)) *
             number(periodB_, placeIn(args.b, args.transposeB, product, k, column % p.columns));
    return behindEpilogue(args, sum, row, column, periodA_);
  }

  static int64_t placeIn(const Tensor& x, bool isTransposed, int64_t product, int64_t row,
                         int64_t column) {
    const int64_t stride = x.strides[-2];
    const int64_t first = x.shape.rank() == 2 ? 0 : product * x.strides[0];
    return first + (isTransposed ? column * stride + row : row * stride + column);
  }

  void check(const Product& p, const GemmArgs& args, const char* whose, double mayBeOff) {
    const parallel::Random random(3, p.describe());
    for (int64_t i = 0; i < kCheckedRows; ++i) {
      const auto below = [&](int64_t index, int64_t end) {
        return static_cast<int64_t>(
            random.below(static_cast<uint64_t>(index), static_cast<uint64_t>(end)));
      };
      const int64_t row = i == 0 ? p.rows - 1 : below(i, p.rows);
      const int64_t product =
          i == 0 ? p.batch - 1 : below((kCheckedRows + 1) * kCheckedColumns + i, p.batch);
      const Tensor c = matrixOf(args.c, product);
      const int64_t columns = c.shape[1];
      const std::vector<float> got = gpu_.read({c.rows(row, 1).data, c.type, {columns}});
      const Tensor& inner = args.epilogue.inner;
      std::vector<float> kept;
      if (inner.data != nullptr)
        kept = gpu_.read({inner.rows(row, 1).data, inner.type, {inner.shape[1]}});
      for (int64_t j = 0; j < kCheckedColumns; ++j) {
        const int64_t column = j == 0 ? columns - 1 : below((i + 1) * kCheckedColumns + j, columns);
        const Expected right = expected(p, args, product, row, column);
        compare(p, whose, "element", row, column, got[static_cast<size_t>(column)],
                right.scale == 0 ? rounded(right.value, args.c.type) : right.value,
                mayBeOff + errorOf(right));
        if (right.keptColumn < 0) continue;
        const auto keptColumn = static_cast<size_t>(right.keptColumn);
        compare(p, whose, "what is kept of it", row, column, kept[keptColumn],
                rounded(right.kept, DType::BFloat16), mayBeOff);
      }
    }
  }

  static double rounded(double exact, DType type) {
    const auto wide = static_cast<float>(exact);
    return type == DType::Float32 ? wide : fromBFloat16(toBFloat16(wide));
  }
  /// Of an activation with 11 bits, and of rounding it to 8.
  static double errorOf(const Expected& x) {
    return x.scale == 0 ? 0 : std::abs(x.value) / 256 + std::abs(x.scale) / 1024;
  }
  static void compare(const Product& p, const char* whose, const char* what, int64_t row,
                      int64_t column, double got, double want, double mayBeOff) {
    if (!(std::abs(got - want) <= mayBeOff))
      parallel::fail(ErrorCode::Internal, p.describe(), whose, ": ", what, " ", row, ", ", column,
                     " is ", got, " and not ", want);
  }

  Gpu gpu_;
  const int turns_;
  const std::vector<float> periodA_, periodB_;
  std::optional<Cublas> cublas_;
  Ratios ratios_, batches_, epilogues_;
};

int run(int argc, char** argv) {
  const Words words(argc, argv, {"--seconds", "--turns", "--cublas"});
  std::vector<Product> products;
  for (const std::string& text : words.others()) products.push_back(parse(text));
  if (products.empty()) products = allProducts();
  const Budget budget(words.number("--seconds", 1e6));
  Bench bench(words.text("--cublas"), static_cast<int>(words.number("--turns", 7)));
  size_t done = 0;
  for (; done < products.size() && !budget.isSpent(); ++done) bench.measure(products[done]);
  std::printf("\nproducts, cuBLAS's time over ours: %s\n", bench.summary().c_str());
  std::printf("batches, cuBLAS's time over ours: %s\n", bench.summaryOfBatches().c_str());
  std::printf("products with an epilogue, cuBLAS's time and that of the rest over ours: %s\n",
              bench.summaryOfEpilogues().c_str());
  if (done < products.size())
    std::printf("products from %s on: not measured: no time left, %zu of %zu\n",
                products[done].describe().c_str(), products.size() - done, products.size());
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  return tutti::bench::guarded("gemm_speed", [&] { return tutti::bench::run(argc, argv); });
}
