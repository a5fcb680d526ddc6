// sharded_matmul: products of two sharded matrices, as `tutti shard` derives them, for real: every
// rank holds its part, redistributes it as the derivation says, multiplies what it then has, and
// compares its part of the result with the whole product, which it computes by itself. What the
// ranks' communicators have counted has to be what the algebra of docs/sharding.md predicts.
// `sharded_matmul --ranks 4 "A[I,Jx] B[Jx,K] -> C[I,K]"`; without a product, the four cases.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "parallel/engine/describe.h"
#include "parallel/samples/matrices.h"
#include "parallel/samples/sample.h"
#include "parallel/sharding/product_options.h"

namespace {

using namespace tutti::parallel;

struct MatmulOptions {
  std::string product, mesh, sizes = "I=512,J=512,K=512", type = "float64";
  int ways = 1;
};

constexpr const char* kCases[] = {
    "A[Ix,J] B[J,K] -> C[Ix,K]",    // 1: no axis splits what is summed over
    "A[I,Jx] B[J,K] -> C[I,K]",     // 2: an axis splits it, in one operand
    "A[I,Jx] B[Jx,K] -> C[I,K]",    // 3: in both, and all of the sum is wanted,
    "A[I,Jx] B[Jx,K] -> C[Ix,K]",   //    or a part of it
    "A[Ix,J] B[J,Kx] -> C[Ix,K]"};  // 4: it splits an index of each that the product keeps

void addFlags(CLI::App& app, MatmulOptions& o) {
  app.add_option("product", o.product,
                 "as `tutti shard` takes it, of matrices: \"A[I,Jx] B[Jx,K] -> C[I,K]\"");
  app.add_option("--mesh", o.mesh, "axes and the ranks along each, outermost first; default: x");
  app.add_option("--sizes", o.sizes, "of all indices")->capture_default_str();
  app.add_option("--type", o.type, "float64 or float32")
      ->check(CLI::IsMember({"float64", "float32"}))
      ->capture_default_str();
  app.add_option("--ways", o.ways, "so many ways to compute it, those that send least first")
      ->check(CLI::Range(1, 1000, "POSITIVE"))
      ->capture_default_str();
}

LetteredMesh meshOf(const MatmulOptions& o, int ranks) {
  const LetteredMesh mesh =
      parseMesh("--mesh", o.mesh.empty() ? message("x=", ranks) : o.mesh, 1024);
  require(mesh.shape.ranks() == ranks, "--mesh ", o.mesh, " has ", mesh.shape.ranks(),
          mesh.shape.ranks() == 1 ? " rank" : " ranks", ", not ", ranks);
  require(mesh.letters.all().size() <= kMostProductAxes, "--mesh ", o.mesh,
          ": a product names at most ", kMostProductAxes, " axes");
  return mesh;
}

class Multiplication {
 public:
  Multiplication(SampleRank& rank, const MatmulOptions& o, const std::string& product)
      : rank_(rank),
        lettered_(meshOf(o, rank.mesh.ranks())),
        type_(*tutti::parseDataType(o.type)),
        product_(parseProduct(product, lettered_.letters)),
        sizes_(parseSizes("--sizes", o.sizes, product_)),
        memory_("matrices", rank.mesh.backing()) {
    requireMatrices(product_);
  }

  void run(const Derivation& way) {
    const ArenaScope scope(memory_);
    if (!rank_.mesh.dry()) compute(way);  // whatever is done for the first time takes longer
    lines_.clear();
    const Tensor c = compute(way);
    rank_.say(message(lines_, "   a rank sends ", bytes(way.sent), " bytes",
                      rank_.mesh.dry() ? "" : message(", worst difference ", check(c)), "\n"));
  }

  std::vector<Derivation> ways(int most) const {
    return derive(product_, sizes_, rank_.mesh.shape(), static_cast<size_t>(most));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Tensor compute(const Derivation& way) {
    const Product& m = way.multiplied;
    const Tensor a = moved(example(product_.a), product_.a, way.stepsOfA);
    const Tensor b = moved(example(product_.b), product_.b, way.stepsOfB);
    const auto start = Clock::now();
    const Tensor c = multiplyParts(m, a, b, rank_.kernels, memory_);
    add(describe(m, lettered_.letters), "multiply", start);
    return moved(c, product_.c, way.stepsOfC);
  }

  /// Throws Internal when the collectives were others than the algebra says.
  Tensor moved(Tensor x, const Term& term, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      const auto start = Clock::now();
      const Tensor from = x;
      const Collectives before = rank_.mesh.counters();
      x = rearranged(rank_.mesh, from, globalShape(term, sizes_), step.after, memory_);
      CollectiveCounters counted;
      for (const auto& [axes, count] : since(before, rank_.mesh.counters())) counted = count;
      const CollectiveCounters predicted = predictedOf(step, from, x);
      ensure(counted == predicted, "the ", toString(step.move), " of ", term.name, " was ",
             describe(counted), ", and not ", describe(predicted));
      add(message(text(term, step.before), " -> ", text(term, step.after)),
          step.move == Move::Slice
              ? "slice, nothing is sent"
              : message(describe(counted), " over ", lettered_.letters[step.axis], ", sends ",
                        bytes(step.sent)),
          start);
    }
    return x;
  }

  /// A collective is counted by its larger side: what is cut up, or what is put together.
  CollectiveCounters predictedOf(const Step& step, const Tensor& from, const Tensor& to) const {
    CollectiveCounters predicted;
    if (rank_.mesh.extent(step.axis) == 1) return predicted;
    switch (step.move) {
      case Move::AllReduce: predicted.allReduce.add(from.bytes()); break;
      case Move::ReduceScatter: predicted.reduceScatter.add(from.bytes()); break;
      case Move::AllGather: predicted.allGather.add(to.bytes()); break;
      case Move::AllToAll: predicted.allToAll.add(std::max(from.bytes(), to.bytes())); break;
      case Move::Slice: break;
    }
    return predicted;
  }

  /// Of all ranks. Throws Internal where it is more than rounding: of a sum of n products that is
  /// n 2^-53 of their sizes at most, and about the root of n of them as a rule.
  double check(const Tensor& part) {
    const Shape global = globalShape(product_.c, sizes_);
    const Tensor c = rearranged(rank_.mesh, part, global, gradientLayout(part.layout), memory_);
    Product whole = product_;
    for (Term* term : {&whole.a, &whole.b, &whole.c}) term->layout = {};
    const double worst = worstDifference(
        c, boxOf(global, c.layout, rank_.mesh.shape(), rank_.mesh.place()),
        multiplyParts(whole, example(whole.a), example(whole.b), rank_.kernels, memory_));
    const double bound = type_ == DType::Float64 ? 1e-12 : 1e-12 * 0x1p29;
    ensure(worst <= bound, "rank ", rank_.mesh.rank(), "'s part of the product is ", worst,
           " from the whole one, in units of its largest element: more than ", bound);
    return worstOf(worst);
  }

  double worstOf(double own) {
    Tensor mine = memory_.allocate(DType::Float64, {1});
    *mine.as<double>() = own;
    for (size_t i = 0; i < lettered_.letters.all().size(); ++i)
      mine.layout.dims[0].append(static_cast<Axis>(i));
    const Tensor all = rearranged(rank_.mesh, mine, {rank_.mesh.ranks()}, {}, memory_);
    return *std::max_element(all.as<double>(), all.as<double>() + all.count());
  }

  Tensor example(const Term& term) {
    return exampleMatrix(rank_.mesh, term, globalShape(term, sizes_), type_, memory_);
  }
  std::string text(Term term, const Layout& layout) const {
    term.layout = layout;
    return describe(term, lettered_.letters);
  }
  int64_t bytes(int64_t elements) const { return elements * static_cast<int64_t>(sizeOf(type_)); }
  /// A line about what was done since `start`.
  void add(const std::string& what, const std::string& how, Clock::time_point start) {
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    std::string line = "   " + what;
    line.resize(std::max<size_t>(line.size() + 2, 36), ' ');
    lines_ += line + how + (rank_.mesh.dry() ? "" : message(", ", std::llround(us), " us")) + "\n";
  }

  SampleRank& rank_;
  const LetteredMesh lettered_;
  const DType type_;
  const Product product_;
  const Sizes sizes_;
  Arena memory_;
  std::string lines_;
};

void multiply(SampleRank& rank, const MatmulOptions& o) {
  std::vector<std::string> products{o.product};
  if (o.product.empty()) products.assign(std::begin(kCases), std::end(kCases));
  for (const std::string& product : products) {
    Multiplication multiplication(rank, o, product);
    rank.say(message(product, "   ", o.type, ", ", o.sizes, "\n"));
    for (const Derivation& way : multiplication.ways(o.ways)) multiplication.run(way);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MatmulOptions options;
  return runSample(argc, argv,
                   {.name = "sharded_matmul",
                    .about = "Multiplies sharded matrices in the ways that `tutti shard` shows.",
                    .flags = [&](CLI::App& app, SampleOptions&) { addFlags(app, options); },
                    .mesh = [&](int ranks) { return meshOf(options, ranks).shape; },
                    .train = [&](SampleRank& rank) { multiply(rank, options); }});
}
