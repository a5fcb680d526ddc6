// sharded_matmul: products of two sharded matrices, as `tutti shard` derives them, for real: every
// rank holds its part, redistributes it as the derivation says, multiplies what it then has, and
// compares its part of the result with the whole product, which it computes by itself. What the
// ranks' communicators have counted has to be what the algebra of docs/explanation/sharding.md
// predicts. `sharded_matmul --ranks 4 "A[I,Jx] B[Jx,K] -> C[I,K]"`; without a product, the four
// cases.

#include <CLI/CLI.hpp>

#include "parallel/engine/describe.h"
#include "parallel/samples/reports/timed_lines.h"
#include "parallel/samples/sample.h"
#include "parallel/samples/sharded_matmul/matmul_drawing.h"
#include "parallel/samples/sharded_matmul/matmul_options.h"
#include "parallel/samples/sharded_matmul/matrices.h"

namespace {

using namespace tutti::parallel;

constexpr const char* kCases[] = {
    "A[Ix,J] B[J,K] -> C[Ix,K]",    // 1: no axis splits what is summed over
    "A[I,Jx] B[J,K] -> C[I,K]",     // 2: an axis splits it, in one operand
    "A[I,Jx] B[Jx,K] -> C[I,K]",    // 3: in both, and all of the sum is wanted,
    "A[I,Jx] B[Jx,K] -> C[Ix,K]",   //    or a part of it
    "A[Ix,J] B[J,Kx] -> C[Ix,K]"};  // 4: it splits an index of each that the product keeps

class Multiplication {
 public:
  Multiplication(SampleRank& rank, const MatmulOptions& o, const std::string& product)
      : rank_(rank),
        lettered_(meshOf(o, rank.mesh.ranks())),
        type_(*tutti::parseDataType(o.type)),
        product_(parseProduct(product, lettered_.letters)),
        sizes_(parseSizes("--sizes", o.sizes, product_)),
        memory_("matrices", rank.mesh.backing()),
        lines_(rank.mesh) {
    requireMatrices(product_);
  }

  /// Adds each way to `drawn`.
  void run(size_t ways, std::vector<DrawnProduct>& drawn) {
    for (const Derivation& way : derive(product_, sizes_, rank_.mesh.shape(), ways)) {
      run(way);
      drawn.push_back({product_, sizes_, way});
    }
  }

 private:
  void run(const Derivation& way) {
    const ArenaScope scope(memory_);
    if (!rank_.mesh.dry()) compute(way);  // whatever is done for the first time takes longer
    lines_.clear();
    const Tensor c = compute(way);
    rank_.say(message(lines_.text(), "   a rank sends ", bytes(way.sent), " bytes"));
    if (!rank_.mesh.dry())
      rank_.say(message(", worst difference ", checkedDifference(rank_.mesh, rank_.kernels,
                                                                 product_, sizes_, c, memory_)));
    rank_.say("\n");
  }

  /// The operands as they have to lie, the product of what this rank then has of them, and that as
  /// it was asked for.
  Tensor compute(const Derivation& way) {
    const Tensor a = moved(example(product_.a), product_.a, way.stepsOfA);
    const Tensor b = moved(example(product_.b), product_.b, way.stepsOfB);
    lines_.start();
    const Tensor c = multiplyParts(way.multiplied, a, b, rank_.kernels, memory_);
    lines_.add(describe(way.multiplied, lettered_.letters), "multiply");
    return moved(c, product_.c, way.stepsOfC);
  }

  Tensor moved(Tensor x, const Term& term, const std::vector<RedistributionStep>& steps) {
    for (const RedistributionStep& step : steps) {
      lines_.start();
      const Tensor from = x;
      const Collectives before = rank_.mesh.counters();
      x = rearranged(rank_.mesh, from, globalShape(term, sizes_), step.after, memory_);
      const Collectives counted = since(before, rank_.mesh.counters());
      requirePredicted(step, counted, predictedCollectives(rank_.mesh, step, from, x));
      lines_.add(message(text(term, step.before), " -> ", text(term, step.after)),
                 how(step, counted));
    }
    return x;
  }

  std::string how(const RedistributionStep& step, const Collectives& counted) const {
    if (step.move == Move::Slice) return "slice, nothing is sent";
    const auto along = counted.find({step.axis});  // none where one rank is
    return message(describe(along == counted.end() ? CollectiveCounters() : along->second),
                   " over ", lettered_.letters[step.axis], ", sends ", bytes(step.sent));
  }
  std::string text(Term term, const Layout& layout) const {
    term.layout = layout;
    return describe(term, lettered_.letters);
  }
  Tensor example(const Term& term) {
    return exampleMatrix(rank_.mesh, term, globalShape(term, sizes_), type_, memory_);
  }
  int64_t bytes(int64_t elements) const { return elements * static_cast<int64_t>(sizeOf(type_)); }

  SampleRank& rank_;
  const LetteredMesh lettered_;
  const DType type_;
  const Product product_;
  const Sizes sizes_;
  Arena memory_;
  TimedLines lines_;
};

void multiply(SampleRank& rank, const MatmulOptions& o) {
  std::vector<std::string> products{o.product};
  if (o.product.empty()) products.assign(std::begin(kCases), std::end(kCases));
  std::vector<DrawnProduct> drawn;
  for (const std::string& product : products) {
    Multiplication multiplication(rank, o, product);
    rank.say(message(product, "   ", o.type, ", ", o.sizes, "\n"));
    multiplication.run(o.ways, drawn);
  }
  if (o.svg.empty()) return;
  const LetteredMesh mesh = meshOf(o, rank.mesh.ranks());
  rank.write("--svg", o.svg, matmulSvg(drawn, mesh, sizeOf(*tutti::parseDataType(o.type))));
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
