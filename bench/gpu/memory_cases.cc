#include "bench/gpu/memory_cases.h"

#include <algorithm>
#include <set>

#include "bench/gpu/memory_case_maker.h"
#include "bench/gpu/memory_launches.h"

namespace tutti::bench {
namespace {

void addElementwise(Maker& m) {
  const ShapeOf row = m.row(), twice = each({2 * m.sizes.width});
  m.rows("add", {in(kNarrow, row), updated(kNarrow, row)},
         [](Kernels& k, Tensors x) { k.add(x[0], x[1]); });
  m.rows("add to float32", {in(kNarrow, row), updated(kWide, row)},
         [](Kernels& k, Tensors x) { k.add(x[0], x[1]); });
  m.rows("cast to bfloat16", {in(kWide, row), out(kNarrow, row)},
         [](Kernels& k, Tensors x) { k.copy(x[0], x[1]); });
  m.rows("cast to float32", {in(kNarrow, row), out(kWide, row)},
         [](Kernels& k, Tensors x) { k.copy(x[0], x[1]); });
  m.rows("bias", {in(kNarrow, m.width()), updated(kNarrow, row)},
         [](Kernels& k, Tensors x) { k.addBias(x[0], x[1]); });
  m.rows("bias gradient", {in(kNarrow, row), out(kWide, m.width())},
         [](Kernels& k, Tensors x) { k.biasGradient(x[0], x[1], 0); });
  m.rows("gelu", {in(kNarrow, row), out(kNarrow, row)},
         [](Kernels& k, Tensors x) { k.gelu(x[0], x[1]); });
  m.rows("gelu backward", {in(kNarrow, row), in(kNarrow, row), out(kNarrow, row)},
         [](Kernels& k, Tensors x) { k.geluBackward(x[0], x[1], x[2]); });
  m.rows("swiglu", {in(kNarrow, twice), out(kNarrow, row)},
         [](Kernels& k, Tensors x) { k.swiGlu(x[0], x[1]); });
  m.rows("swiglu backward", {in(kNarrow, row), in(kNarrow, twice), out(kNarrow, twice)},
         [](Kernels& k, Tensors x) { k.swiGluBackward(x[0], x[1], x[2]); });
}

void addNorms(Maker& m) {
  const ShapeOf row = m.row(), one = m.one(), width = m.width();
  m.rows("layer norm of a sum",
         {updated(kNarrow, row), in(kNarrow, width), in(kNarrow, width), out(kNarrow, row),
          out(kWide, one), out(kWide, one), in(kNarrow, row)},
         [](Kernels& k, Tensors x) {
           k.layerNorm({.x = x[0],
                        .weight = x[1],
                        .bias = x[2],
                        .y = x[3],
                        .mean = x[4],
                        .rstd = x[5],
                        .residual = x[6]});
         });
  m.rows("rms norm of a sum",
         {updated(kNarrow, row), in(kNarrow, width), out(kNarrow, row), out(kWide, one),
          in(kNarrow, row)},
         [](Kernels& k, Tensors x) {
           k.rmsNorm({.x = x[0], .weight = x[1], .y = x[2], .rstd = x[3], .residual = x[4]});
         });
  m.rows("layer norm",
         {in(kNarrow, row), in(kNarrow, width), in(kNarrow, width), out(kNarrow, row),
          out(kWide, one), out(kWide, one)},
         [](Kernels& k, Tensors x) {
           k.layerNorm(
               {.x = x[0], .weight = x[1], .bias = x[2], .y = x[3], .mean = x[4], .rstd = x[5]});
         });
  m.rows("layer norm backward",
         {in(kNarrow, row), in(kNarrow, row), in(kNarrow, width), in(kWide, one),
          in(kWide, one, Content::Positive), in(kNarrow, row), out(kNarrow, row)},
         [](Kernels& k, Tensors x) {
           k.layerNormBackward({.dy = x[0],
                                .x = x[1],
                                .weight = x[2],
                                .mean = x[3],
                                .rstd = x[4],
                                .residual = x[5],
                                .dx = x[6]});
         });
  m.rows("layer norm weights",
         {in(kNarrow, row), in(kNarrow, row), in(kWide, one), in(kWide, one, Content::Positive),
          out(kWide, width), out(kWide, width)},
         [](Kernels& k, Tensors x) {
           k.layerNormWeights(
               {.dy = x[0], .x = x[1], .mean = x[2], .rstd = x[3], .dWeight = x[4], .dBias = x[5]});
         });
  m.rows("layer norm gradients",
         {in(kNarrow, row), in(kNarrow, row), in(kNarrow, width), in(kWide, one),
          in(kWide, one, Content::Positive), in(kNarrow, row), out(kNarrow, row), out(kWide, width),
          out(kWide, width), m.sums(2)},
         [](Kernels& k, Tensors x) {
           const Tensor sums = k.normSlices({x[0], x[1], x[2], x[5], x[6]}) > 0 ? x[9] : Tensor();
           k.layerNormBackward({.dy = x[0],
                                .x = x[1],
                                .weight = x[2],
                                .mean = x[3],
                                .rstd = x[4],
                                .residual = x[5],
                                .dx = x[6],
                                .sums = sums});
           k.layerNormWeights({.dy = x[0],
                               .x = x[1],
                               .mean = x[3],
                               .rstd = x[4],
                               .dWeight = x[7],
                               .dBias = x[8],
                               .sums = sums});
         });
  m.rows("rms norm", {in(kNarrow, row), in(kNarrow, width), out(kNarrow, row), out(kWide, one)},
         [](Kernels& k, Tensors x) {
           k.rmsNorm({.x = x[0], .weight = x[1], .y = x[2], .rstd = x[3]});
         });
  m.rows("rms norm backward",
         {in(kNarrow, row), in(kNarrow, row), in(kNarrow, width), in(kWide, one, Content::Positive),
          in(kNarrow, row), out(kNarrow, row)},
         [](Kernels& k, Tensors x) {
           k.rmsNormBackward(
               {.dy = x[0], .x = x[1], .weight = x[2], .rstd = x[3], .residual = x[4], .dx = x[5]});
         });
  m.rows("rms norm weights",
         {in(kNarrow, row), in(kNarrow, row), in(kWide, one, Content::Positive), out(kWide, width)},
         [](Kernels& k, Tensors x) {
           k.rmsNormWeights({.dy = x[0], .x = x[1], .rstd = x[2], .dWeight = x[3]});
         });
  m.rows("rms norm gradients",
         {in(kNarrow, row), in(kNarrow, row), in(kNarrow, width), in(kWide, one, Content::Positive),
          in(kNarrow, row), out(kNarrow, row), out(kWide, width), m.sums(1)},
         [](Kernels& k, Tensors x) {
           const Tensor sums = k.normSlices({x[0], x[1], x[2], x[4], x[5]}) > 0 ? x[7] : Tensor();
           k.rmsNormBackward({.dy = x[0],
                              .x = x[1],
                              .weight = x[2],
                              .rstd = x[3],
                              .residual = x[4],
                              .dx = x[5],
                              .sums = sums});
           k.rmsNormWeights({.dy = x[0], .x = x[1], .rstd = x[3], .dWeight = x[6], .sums = sums});
         });
}

void addTokens(Maker& m) {
  const MemorySizes& s = m.sizes;
  const int64_t sequences = std::max<int64_t>(1, s.rows / s.context);
  const int64_t headWidth = std::min<int64_t>(128, s.width), heads = s.width / headWidth;
  const ShapeOf sequence = each({s.context, s.width}), ids = each({s.context});
  const ShapeOf angles = fixed({s.context, headWidth / 2});
  const ShapeOf table = fixed({s.vocabulary, s.width});
  m.cases.push_back(
      {"rotary",
       sequences,
       1,
       {updated(kNarrow, sequence), in(kWide, angles), in(kWide, angles)},
       quiet([=](Kernels& k, Tensors x) {
         k.rotary(
             {.x = x[0], .cosine = x[1], .sine = x[2], .heads = heads, .headWidth = headWidth});
       })});
  // All sequences have the same ids, of which several may be one.
  const std::vector<int32_t> used = idsBelow(s.vocabulary, s.context);
  MemoryOperand tokens = in(kNarrow, table);
  tokens.usedRows = static_cast<int64_t>(std::set<int32_t>(used.begin(), used.end()).size());
  m.cases.push_back({"embedding",
                     sequences,
                     1,
                     {in(kInt, ids, Content::Ids), tokens, out(kNarrow, sequence)},
                     quiet([](Kernels& k, Tensors x) {
                       k.embedding({.tokenIds = x[0], .tokens = x[1], .x = x[2]});
                     })});
  m.cases.push_back({"embedding with positions",
                     sequences,
                     1,
                     {in(kInt, ids, Content::Ids), tokens, in(kNarrow, fixed({s.context, s.width})),
                      out(kNarrow, sequence)},
                     quiet([](Kernels& k, Tensors x) {
                       k.embedding(
                           {.tokenIds = x[0], .tokens = x[1], .positions = x[2], .x = x[3]});
                     })});
  m.cases.push_back({"embedding gradient",
                     sequences,
                     1,
                     {in(kInt, ids, Content::Ids), in(kNarrow, sequence), out(kWide, table)},
                     quiet([](Kernels& k, Tensors x) {
                       k.embeddingWeights({.tokenIds = x[0], .dx = x[1], .dTokens = x[2]});
                     })});
  const ShapeOf queries = each({heads, s.context});
  m.cases.push_back(
      {"attention merge",
       sequences,
       1,
       {in(kNarrow, sequence), in(kWide, queries), updated(kNarrow, sequence),
        updated(kWide, queries)},
       quiet([=](Kernels& k, Tensors x) {
         k.attentionMerge(
             {.part = x[0], .partLogSumExp = x[1], .out = x[2], .logSumExp = x[3], .heads = heads});
       })});
}

/// Float64, on the host: of a row of each head.
void dotsOfHeads(const Tensor& dOut, const Tensor& out, const Tensor& dots) {
  const int64_t heads = dots.shape[1], rows = dots.shape[2], width = dOut.shape[2];
  const int64_t headWidth = width / heads;
  for (int64_t i = 0; i < dots.count(); ++i) {
    const int64_t sequence = i / rows / heads, head = i / rows % heads;
    const int64_t first = (sequence * rows + i % rows) * width + head * headWidth;
    double sum = 0;
    for (int64_t k = first; k < first + headWidth; ++k)
      sum += dOut.as<double>()[k] * out.as<double>()[k];
    dots.as<double>()[i] = sum;
  }
}

/// Kernels that are parts of calls: what attention's backward begins with, and what a product ends
/// with whose depth is split, into a gradient of float32 that it is added to.
void addPartsOfCalls(Maker& m) {
  const MemorySizes& s = m.sizes;
  const int64_t sequences = std::max<int64_t>(1, s.rows / s.context);
  const int64_t heads = s.width / std::min<int64_t>(128, s.width);
  const ShapeOf sequence = each({s.context, s.width});
  m.cases.push_back(
      {"attention dots",
       sequences,
       1,
       {in(kNarrow, sequence), in(kNarrow, sequence), out(kWide, each({heads, s.context}))},
       quiet([](Kernels&, Tensors x) { dotsOfHeads(x[0], x[1], x[2]); }),
       [](Tensors x, CUstream_st* stream) {
         launchAttentionDots({.dOut = x[0], .out = x[1], .dots = x[2]}, stream);
       }});
  // Each sequence stands for a product.
  constexpr int64_t kSplits = 4;
  const int64_t columns = (s.width + 3) / 4 * 4;
  m.cases.push_back(
      {"sum of splits",
       sequences,
       1,
       {in(kWide, each({kSplits, s.context, columns})), updated(kWide, each({s.context, columns}))},
       quiet([](Kernels& k, Tensors x) {
         const Tensor splits = x[0].view({kSplits, x[1].count()});  // one product, on the host
         for (int64_t split = 0; split < kSplits; ++split)
           k.add(splits.rows(split, 1).view(x[1].shape), x[1]);
       }),
       [](Tensors x, CUstream_st* stream) {
         launchSumOfSplits({.partial = x[0], .c = x[1]}, stream);
       }});
}

int64_t lossRows(const Maker& m) {
  return std::max<int64_t>(1, m.sizes.rows / 4 / m.period) * m.period;
}
/// Rows of so many columns that begin at multiples of 16 bytes, as a model has them
/// (Arena::allocateRows).
ShapeOf logitRows(int64_t columns) { return each({(columns + 7) / 8 * 8}); }

/// The call and, where it is wanted, the kernel alone. `argsOf` gives arguments of operands, of
/// which the last is the losses of the kernel.
template <class ArgsOf>
void addCrossEntropy(Maker& m, const std::string& name, std::vector<MemoryOperand> operands,
                     bool isAlone, const ArgsOf& argsOf) {
  m.cases.push_back({name, lossRows(m), m.period, operands,
                     [=](Kernels& k, Tensors x) { return k.crossEntropy(argsOf(x)); }});
  if (!isAlone) return;
  operands.push_back(out(DType::Float64, m.one()));
  operands.back().isPinned = true;
  m.cases.push_back(
      {name + kAlone, lossRows(m), m.period, operands,
       // Of the host row by row: the kernel leaves a loss of each.
       quiet([=](Kernels& k, Tensors x) {
         for (int64_t row = 0; row < x[1].count(); ++row) {
           parallel::CrossEntropyArgs args = argsOf(x);
           args.logits = args.logits.rows(row, 1);
           args.labels = args.labels.rows(row, 1);
           if (args.statistics.data != nullptr)
             args.statistics = args.statistics.view({x[1].count(), 3}).rows(row, 1).view({1, 1, 3});
           x.back().as<double>()[row] = k.crossEntropy(args);
         }
       }),
       [=](Tensors x, CUstream_st* stream) {
         launchCrossEntropy({.args = argsOf(x), .losses = x.back()}, stream);
       }});
}

/// `part`: behind the names; so many columns of the vocabulary. `isAlone`: kernels, too.
void addLossOf(Maker& m, const std::string& part, int64_t columns, bool isAlone) {
  const int64_t all = m.sizes.vocabulary, rows = lossRows(m);
  const ShapeOf logits = logitRows(columns);
  const MemoryOperand labels = in(kInt, m.one(), Content::Ids);
  const auto statisticsOf = [=](Tensors x) {
    return parallel::LogitStatisticsArgs{
        .logits = x[0].part(1, 0, columns), .labels = x[1], .statistics = x[2], .vocabulary = all};
  };
  MemoryCase statistics{"logit statistics" + part,
                        rows,
                        m.period,
                        {in(kNarrow, logits), labels, out(kWide, each({3}))},
                        quiet([=](Kernels& k, Tensors x) { k.logitStatistics(statisticsOf(x)); })};
  m.cases.push_back(statistics);
  if (isAlone) {
    statistics.name += kAlone;
    statistics.launch = [=](Tensors x, CUstream_st* stream) {
      launchLogitStatistics(statisticsOf(x), stream);
    };
    m.cases.push_back(statistics);
  }
  // One rank's, as if others had nothing: content repeats by rows, and not by ranks.
  const ShapeOf ofOneRank = [](int64_t units) { return Shape{1, units, 3}; };
  addCrossEntropy(m, "cross-entropy" + part,
                  {updated(kNarrow, logits), labels, in(kWide, ofOneRank, Content::Positive)},
                  isAlone, [=](Tensors x) {
                    return parallel::CrossEntropyArgs{.logits = x[0].part(1, 0, columns),
                                                      .labels = x[1],
                                                      .statistics = x[2],
                                                      .vocabulary = all};
                  });
}

void addLoss(Maker& m) {
  constexpr int64_t kRanks = 8;
  const int64_t columns = m.sizes.vocabulary;
  addCrossEntropy(m, "loss of a whole vocabulary",
                  {updated(kNarrow, logitRows(columns)), in(kInt, m.one(), Content::Ids)}, true,
                  [=](Tensors x) {
                    return parallel::CrossEntropyArgs{.logits = x[0].part(1, 0, columns),
                                                      .labels = x[1]};
                  });
  addLossOf(m, "", columns, false);
  addLossOf(m, " of a part", (columns + kRanks - 1) / kRanks, true);
}

constexpr int64_t kExperts = 64, kChosen = 2;

MemoryOperand experts(const ShapeOf& shape) {
  MemoryOperand chosen = in(kInt, shape, Content::Ids);
  chosen.end = kExperts;
  return chosen;
}

// Each token goes to two of 64 experts.
void addRouting(Maker& m) {
  const int64_t rows = m.sizes.rows;
  const ShapeOf logits = each({kExperts}), chosen = each({kChosen}), one = m.one();
  const ShapeOf ofSequence = fixed({1, kExperts}), ofPieces = fixed({1, 2, kExperts});
  m.rows("route",
         {in(kWide, logits), out(kWide, logits), out(kWide, one), out(kInt, chosen),
          out(kWide, chosen)},
         [](Kernels& k, Tensors x) {
           k.route({.logits = x[0],
                    .probabilities = x[1],
                    .logSumExp = x[2],
                    .chosen = x[3],
                    .weights = x[4],
                    .normalized = true});
         });
  const auto gradientOf = [rows](Tensors x) {
    return parallel::RouterGradientArgs{.dWeights = x[0],
                                        .probabilities = x[1],
                                        .logSumExp = x[2],
                                        .chosen = x[3],
                                        .weights = x[4],
                                        .choices = x[5],
                                        .dLogits = x[6],
                                        .length = rows,
                                        .normalized = true,
                                        .balance = 0.5,
                                        .z = 0.25};
  };
  MemoryCase gradient{
      "router gradient",
      rows,
      m.period,
      {in(kWide, chosen), in(kWide, logits, Content::Positive), in(kWide, one), experts(chosen),
       in(kWide, chosen, Content::Positive), experts(ofSequence), out(kWide, logits)},
      [=](Kernels& k, Tensors x) {
        const parallel::RouterLosses losses = k.routerGradient(gradientOf(x));
        return losses.balance + losses.z;
      }};
  m.cases.push_back(gradient);
  // What rows have is checked by its sums, which the second kernel makes of all.
  gradient.name += ", its two kernels";
  gradient.operands.push_back(unasked(DType::Float64, 2 * rows + 2));
  gradient.launch = [=](Tensors x, CUstream_st* stream) {
    launchRouterGradient({.args = gradientOf(x), .losses = x.back()}, stream);
  };
  gradient.left = [=](Gpu& gpu, Tensors x) {
    parallel::RouterLosses losses;
    gpu.readBytes(x.back().rows(2 * rows, 2), &losses);
    return losses.balance + losses.z;
  };
  m.cases.push_back(gradient);
  m.rows("count choices", {experts(chosen), out(kInt, ofPieces)},
         [](Kernels& k, Tensors x) { k.countChoices({.chosen = x[0], .choices = x[1]}); });
  // Where a choice goes depends on all that are before it.
  m.cases.push_back({"place tokens",
                     rows,
                     rows,
                     {experts(chosen), out(kInt, chosen), experts(ofPieces), out(kInt, ofSequence)},
                     quiet([rows](Kernels& k, Tensors x) {
                       std::vector<int64_t> loads(kExperts);
                       k.placeTokens({.chosen = x[0],
                                      .places = x[1],
                                      .pieces = x[2],
                                      .choices = x[3],
                                      .length = rows,
                                      .loads = loads});
                     })});
}

void addMoves(Maker& m) {
  const ShapeOf row = m.row(), chosen = each({kChosen});
  const ShapeOf placed = [width = m.sizes.width](int64_t units) {
    return Shape{units * kChosen, width};
  };
  const MemoryOperand places = in(kInt, chosen, Content::Places), weights = in(kWide, chosen);
  m.rows("spread rows", {in(kNarrow, row), places, weights, out(kNarrow, placed)},
         [](Kernels& k, Tensors x) {
           k.spreadRows({.x = x[0], .places = x[1], .weights = x[2], .y = x[3]});
         });
  m.rows("combine rows", {in(kNarrow, placed), places, weights, out(kNarrow, row)},
         [](Kernels& k, Tensors x) {
           k.combineRows({.x = x[0], .places = x[1], .weights = x[2], .y = x[3]});
         });
  m.rows("row dots", {in(kNarrow, row), in(kNarrow, placed), places, out(kWide, chosen)},
         [](Kernels& k, Tensors x) {
           k.rowDots({.x = x[0], .y = x[1], .places = x[2], .dots = x[3]});
         });
}

}  // namespace

double MemoryCase::bytes() const {
  double bytes = 0;
  for (const MemoryOperand& operand : operands) {
    Shape shape = operand.shape(units);
    if (operand.usedRows > 0) shape[0] = operand.usedRows;
    if (!operand.isPinned)
      bytes += (operand.isRead + operand.isWritten) *
               static_cast<double>(parallel::byteCount(operand.type, shape));
  }
  return bytes;
}

Cases memoryCases(const MemorySizes& sizes) {
  Maker maker{sizes, std::min<int64_t>(kRowPeriod, sizes.rows), {}};
  for (const auto add : {addElementwise, addNorms, addTokens, addPartsOfCalls, addLoss, addRouting,
                         addMoves, addOptimizer})
    add(maker);
  return maker.cases;
}

}  // namespace tutti::bench
