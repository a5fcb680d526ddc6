// What the kernels refuse, those of all devices and those of a dry run alike: every operand of the
// wrong shape or type, strided where it must be contiguous; and ids outside the vocabulary, which a
// dry run does not look at.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/parallel/kernels/operands.h"

namespace tutti::parallel {
namespace {

class Refusals : public Operands {
 protected:
  /// `call(args)` works as `args` stand, and with bfloat16 for any of its float32 operands; it
  /// throws InvalidArgument after each spoiling of any one of them.
  template <class Args>
  void expectAllChecked(Args args, const std::function<void(const Args&)>& call,
                        const std::vector<Tensor Args::*>& operands) {
    EXPECT_NO_THROW(call(args));
    for (size_t i = 0; i < operands.size(); ++i) {
      if (Args mixed = args; (mixed.*operands[i]).type == DType::Float32) {
        mixed.*operands[i] = make((args.*operands[i]).shape, DType::BFloat16);
        EXPECT_NO_THROW(call(mixed)) << "bfloat16 operand " << i;
      }
      for (const Tensor& spoilt : spoil(args.*operands[i])) {
        Args wrong = args;
        wrong.*operands[i] = spoilt;
        try {
          call(wrong);
          ADD_FAILURE() << "operand " << i << ": " << spoilt << " was taken";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
        }
      }
    }
  }

  bool rowsMayBeStrided_ = false;

 private:
  /// One element more, another type, and gaps between rows, or elements where those are taken.
  std::vector<Tensor> spoil(const Tensor& right) {
    Shape longer = right.shape;
    longer[-1] += 1;
    Tensor strided = right;
    strided.strides[rowsMayBeStrided_ ? -1 : 0] += 1;
    return {make(longer, right.type),
            make(right.shape, right.type == DType::Float32 ? DType::Float64 : DType::Float32),
            strided};
  }
};

TEST_P(Refusals, LayerNorm) {
  const Tensor x = make({kRows, kWidth}), vector = make({kWidth}), rows = make({kRows});
  using Forward = LayerNormArgs;
  expectAllChecked<Forward>(
      {.x = x, .weight = vector, .bias = vector, .y = x, .mean = rows, .rstd = rows},
      [&](const Forward& a) { kernels_.layerNorm(a); },
      {&Forward::x, &Forward::weight, &Forward::bias, &Forward::y, &Forward::mean, &Forward::rstd});
  expectAllChecked<Forward>({.x = x,
                             .weight = vector,
                             .bias = vector,
                             .y = make({kRows, kWidth}),
                             .mean = rows,
                             .rstd = rows,
                             .residual = make({kRows, kWidth})},
                            [&](const Forward& a) { kernels_.layerNorm(a); },
                            {&Forward::x, &Forward::residual});
  using Backward = LayerNormBackwardArgs;
  expectAllChecked<Backward>(
      {.dy = x, .x = x, .weight = vector, .mean = rows, .rstd = rows, .residual = x, .dx = x},
      [&](const Backward& a) { kernels_.layerNormBackward(a); },
      {&Backward::dy, &Backward::x, &Backward::weight, &Backward::mean, &Backward::rstd,
       &Backward::residual, &Backward::dx});
  using Weights = LayerNormWeightArgs;
  expectAllChecked<Weights>(
      {.dy = x, .x = x, .mean = rows, .rstd = rows, .dWeight = vector, .dBias = vector},
      [&](const Weights& a) { kernels_.layerNormWeights(a); },
      {&Weights::dy, &Weights::x, &Weights::mean, &Weights::rstd, &Weights::dWeight,
       &Weights::dBias});
}

// Of rows that no device leaves sums of.
TEST_P(Refusals, SumsOfNorms) {
  const Tensor x = make({kRows, kWidth}), vector = make({kWidth}), rows = make({kRows});
  EXPECT_EQ(kernels_.normSlices({x, x, vector, {}, x}), 0);
  const auto refuses = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "they were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
    }
  };
  for (const int64_t slices : {1, 2}) {
    const Tensor both = make({2, slices, kWidth}), one = make({1, slices, kWidth});
    refuses([&] {
      kernels_.layerNormBackward({.dy = x,
                                  .x = x,
                                  .weight = vector,
                                  .mean = rows,
                                  .rstd = rows,
                                  .residual = {},
                                  .dx = x,
                                  .sums = both});
    });
    refuses([&] {
      kernels_.layerNormWeights({.dy = x,
                                 .x = x,
                                 .mean = rows,
                                 .rstd = rows,
                                 .dWeight = vector,
                                 .dBias = vector,
                                 .sums = both});
    });
    refuses([&] {
      kernels_.rmsNormBackward(
          {.dy = x, .x = x, .weight = vector, .rstd = rows, .residual = {}, .dx = x, .sums = one});
    });
    refuses([&] {
      kernels_.rmsNormWeights(
          {.dy = x, .x = x, .rstd = rows, .dWeight = vector, .beta = 0, .sums = one});
    });
  }
}

TEST_P(Refusals, Attention) {
  const Tensor qkv = make({2, 3, 3 * kWidth}), out = make({2, 3, kWidth}), lse = make({2, 2, 3}),
               dQkv = make({2, 3, 3 * kWidth});
  using Forward = AttentionArgs;
  expectAllChecked<Forward>({qkv, out, lse, 2, 2},
                            [&](const Forward& a) { kernels_.attention(a, arena_); },
                            {&Forward::qkv, &Forward::out, &Forward::logSumExp});
  using Backward = AttentionBackwardArgs;
  expectAllChecked<Backward>(
      {out, qkv, out, lse, dQkv, 2, 2},
      [&](const Backward& a) { kernels_.attentionBackward(a, arena_); },
      {&Backward::dOut, &Backward::qkv, &Backward::out, &Backward::logSumExp, &Backward::dQkv});
  for (int64_t heads : {-1, 0, 3})
    EXPECT_THROW(kernels_.attention({qkv, out, lse, heads, heads}, arena_), Error) << heads;
  for (int64_t kvHeads : {-1, 0, 1, 3, 4})
    EXPECT_THROW(kernels_.attention({qkv, out, lse, 2, kvHeads}, arena_), Error) << kvHeads;
  const Tensor shared = make({2, 3, 2 * kWidth});
  EXPECT_NO_THROW(kernels_.attention({shared, out, lse, 2, 1}, arena_));
}

TEST_P(Refusals, AttentionBlocks) {
  rowsMayBeStrided_ = true;
  const Tensor q = make({2, 3, 2 * kWidth}), k = make({2, 5, kWidth}), lse = make({2, 4, 3}),
               out = make({2, 3, 2 * kWidth}), dQ = make({2, 3, 2 * kWidth}),
               dK = make({2, 5, kWidth}), dV = make({2, 5, kWidth}), sums = make({2, 4, 3});
  using Forward = AttentionBlockArgs;
  const Forward right{q, k, k, out, lse, 4, 2, 1, 0};
  expectAllChecked<Forward>(
      right, [&](const Forward& a) { kernels_.attentionBlock(a, arena_); },
      {&Forward::query, &Forward::key, &Forward::value, &Forward::out, &Forward::logSumExp});
  using Backward = AttentionBlockBackwardArgs;
  expectAllChecked<Backward>(
      {out, q, k, k, out, lse, dQ, dK, dV, 4, 2},
      [&](const Backward& a) { kernels_.attentionBlockBackward(a, arena_); },
      {&Backward::dOut, &Backward::query, &Backward::key, &Backward::value, &Backward::out,
       &Backward::logSumExp, &Backward::dQuery, &Backward::dKey, &Backward::dValue});
  using Merge = AttentionMergeArgs;
  expectAllChecked<Merge>({q, lse, out, sums, 4},
                          [&](const Merge& a) { kernels_.attentionMerge(a); },
                          {&Merge::part, &Merge::partLogSumExp, &Merge::out, &Merge::logSumExp});
  const auto refused = [&](void (*change)(Forward&)) {
    Forward wrong = right;
    change(wrong);
    EXPECT_THROW(kernels_.attentionBlock(wrong, arena_), Error);
  };
  refused([](Forward& a) { a.heads = 3; });
  refused([](Forward& a) { a.kvHeads = 3; });
  refused([](Forward& a) { a.kvHeads = 1; });
  refused([](Forward& a) { a.kvHeads = 0; });
  refused([](Forward& a) { a.firstQuery = -1; });
  refused([](Forward& a) { a.firstKey = -1; });
}

TEST_P(Refusals, Routing) {
  constexpr int64_t kExperts = 3, kChosen = 2;
  const Tensor logits = make({kRows, kExperts}), rows = make({kRows}),
               weights = make({kRows, kChosen}), chosen = make({kRows, kChosen}, DType::Int32),
               pieces = make({2, 2, kExperts}, DType::Int32),
               choices = make({2, kExperts}, DType::Int32);
  using Route = RouteArgs;
  expectAllChecked<Route>(
      {.logits = logits,
       .probabilities = logits,
       .logSumExp = rows,
       .chosen = chosen,
       .weights = weights},
      [&](const Route& a) { kernels_.route(a); },
      {&Route::logits, &Route::probabilities, &Route::logSumExp, &Route::weights});
  for (const Shape& shape : {Shape{kRows, 4}, Shape{kRows, 0}, Shape{kRows + 1, 2}})
    EXPECT_THROW(kernels_.route({.logits = logits,
                                 .probabilities = logits,
                                 .logSumExp = rows,
                                 .chosen = make(shape, DType::Int32),
                                 .weights = make(shape)}),
                 Error);
  std::vector<int64_t> loads(kExperts);
  using Place = PlaceTokensArgs;
  const Place place{.chosen = chosen,
                    .places = make(chosen.shape, DType::Int32),
                    .pieces = pieces,
                    .choices = choices,
                    .early = 1,
                    .length = kRows / 2,
                    .loads = loads};
  expectAllChecked<Place>(place, [&](const Place& a) { kernels_.placeTokens(a); },
                          {&Place::chosen, &Place::places, &Place::pieces, &Place::choices});
  const auto refused = [&](void (*change)(Place&)) {
    Place wrong = place;
    change(wrong);
    EXPECT_THROW(kernels_.placeTokens(wrong), Error);
  };
  refused([](Place& a) { a.own = {1, 0}; });
  refused([](Place& a) { a.own = {-1, 0}; });
  refused([](Place& a) { a.own = {0, 2}; });
  refused([](Place& a) { a.early = -1; });
  refused([](Place& a) { a.early = 4; });   // of three rows
  refused([](Place& a) { a.length = 2; });  // of which there are three
  refused([](Place& a) { a.capacity = -1; });
  using Count = CountChoicesArgs;
  const Count count{.chosen = chosen, .choices = pieces, .early = 3};
  EXPECT_NO_THROW(kernels_.countChoices(count));
  for (const Tensor& wrong : {make(pieces.shape), choices, make({2, 3, kExperts}, DType::Int32),
                              make({4, 2, kExperts}, DType::Int32)})
    EXPECT_THROW(kernels_.countChoices({.chosen = chosen, .choices = wrong}), Error) << wrong;
  EXPECT_THROW(kernels_.countChoices({.chosen = make(chosen.shape), .choices = pieces}), Error);
  EXPECT_THROW(kernels_.countChoices({.chosen = chosen, .choices = pieces, .early = 4}), Error);
  using Gradient = RouterGradientArgs;
  expectAllChecked<Gradient>({.dWeights = weights,
                              .probabilities = logits,
                              .logSumExp = rows,
                              .chosen = chosen,
                              .weights = weights,
                              .choices = choices,
                              .dLogits = logits,
                              .length = kRows / 2},
                             [&](const Gradient& a) { kernels_.routerGradient(a); },
                             {&Gradient::dWeights, &Gradient::probabilities, &Gradient::logSumExp,
                              &Gradient::weights, &Gradient::choices, &Gradient::dLogits});
}

TEST_P(Refusals, PlacedRows) {
  const Tensor x = make({kRows, kWidth}), placed = make({9, kWidth}), weights = make({kRows, 2}),
               places = make({kRows, 2}, DType::Int32);
  for (int32_t i = 0; i < 2 * kRows; ++i) places.as<int32_t>()[i] = i < 9 ? i : -1;
  // What is one longer is refused beside the others; a placed tensor may have any rows.
  using Spread = SpreadRowsArgs;
  expectAllChecked<Spread>({.x = x, .places = places, .weights = weights, .y = placed},
                           [&](const Spread& a) { kernels_.spreadRows(a); },
                           {&Spread::x, &Spread::places, &Spread::weights, &Spread::y});
  using Combine = CombineRowsArgs;
  expectAllChecked<Combine>({.x = placed, .places = places, .weights = weights, .y = x},
                            [&](const Combine& a) { kernels_.combineRows(a); },
                            {&Combine::x, &Combine::places, &Combine::weights, &Combine::y});
  using Dots = RowDotsArgs;
  expectAllChecked<Dots>({.x = x, .y = placed, .places = places, .dots = weights},
                         [&](const Dots& a) { kernels_.rowDots(a); },
                         {&Dots::x, &Dots::y, &Dots::places, &Dots::dots});
}

TEST_P(Refusals, RmsNorm) {
  const Tensor x = make({kRows, kWidth}), vector = make({kWidth}), rows = make({kRows});
  using Forward = RmsNormArgs;
  expectAllChecked<Forward>({.x = x, .weight = vector, .y = x, .rstd = rows},
                            [&](const Forward& a) { kernels_.rmsNorm(a); },
                            {&Forward::x, &Forward::weight, &Forward::y, &Forward::rstd});
  expectAllChecked<Forward>({.x = x,
                             .weight = vector,
                             .y = make({kRows, kWidth}),
                             .rstd = rows,
                             .residual = make({kRows, kWidth})},
                            [&](const Forward& a) { kernels_.rmsNorm(a); },
                            {&Forward::x, &Forward::residual});
  using Backward = RmsNormBackwardArgs;
  expectAllChecked<Backward>(
      {.dy = x, .x = x, .weight = vector, .rstd = rows, .residual = x, .dx = x},
      [&](const Backward& a) { kernels_.rmsNormBackward(a); },
      {&Backward::dy, &Backward::x, &Backward::weight, &Backward::rstd, &Backward::residual,
       &Backward::dx});
  using Weights = RmsNormWeightArgs;
  expectAllChecked<Weights>({.dy = x, .x = x, .rstd = rows, .dWeight = vector},
                            [&](const Weights& a) { kernels_.rmsNormWeights(a); },
                            {&Weights::dy, &Weights::x, &Weights::rstd, &Weights::dWeight});
}

TEST_P(Refusals, Rotary) {
  const Tensor x = make({2, 3, 3 * kWidth}), table = make({3, kWidth / 2});
  using Args = RotaryArgs;
  const Args right{.x = x, .cosine = table, .sine = table, .heads = 3, .headWidth = kWidth};
  expectAllChecked<Args>(right, [&](const Args& a) { kernels_.rotary(a); },
                         {&Args::cosine, &Args::sine});
  const auto refused = [&](void (*change)(Args&)) {
    Args wrong = right;
    change(wrong);
    EXPECT_THROW(kernels_.rotary(wrong), Error);
  };
  refused([](Args& a) { a.heads = 4; });
  refused([](Args& a) { a.heads = 0; });
  refused([](Args& a) { a.headWidth = 3; });
  refused([](Args& a) { a.headWidth = 0; });
  refused([](Args& a) { a.x.strides[0] += 1; });
  refused([](Args& a) { a.x = a.x.matrix(); });
  Args longer = right;
  longer.x = make({2, 4, 3 * kWidth});  // than there are positions
  EXPECT_THROW(kernels_.rotary(longer), Error);
  longer.at = make({4}, DType::Int32);
  expectAllChecked<Args>(longer, [&](const Args& a) { kernels_.rotary(a); }, {&Args::at});
  tested_->finish();
  longer.at.as<int32_t>()[2] = 3;
  if (kernels_.dry()) return;
  EXPECT_THROW(kernels_.rotary(longer), Error);
}

TEST_P(Refusals, SwiGlu) {
  const Tensor x = make({kRows, 2 * kWidth}), y = make({kRows, kWidth});
  EXPECT_NO_THROW(kernels_.swiGlu(x, y));
  EXPECT_NO_THROW(kernels_.swiGluBackward(y, x, x));
  const Tensor doubles = make({kRows, kWidth}, DType::Float64), wide = make({kRows, kWidth + 1});
  Tensor strided = y;
  strided.strides[0] += 1;
  for (const Tensor& wrong : {x, doubles, wide, strided}) {
    EXPECT_THROW(kernels_.swiGlu(x, wrong), Error) << wrong;
    EXPECT_THROW(kernels_.swiGluBackward(wrong, x, x), Error) << wrong;
  }
  EXPECT_THROW(kernels_.swiGluBackward(y, x, y), Error);
}

TEST_P(Refusals, Embedding) {
  const Tensor ids = make({2, 3}, DType::Int32), table = make({kVocabulary, kWidth});
  const Tensor x = make({2, 3, kWidth});
  using Forward = EmbeddingArgs;
  expectAllChecked<Forward>(
      {ids, table, table, x}, [&](const Forward& a) { kernels_.embedding(a); },
      {&Forward::tokenIds, &Forward::tokens, &Forward::positions, &Forward::x});
  using Weights = EmbeddingWeightArgs;
  expectAllChecked<Weights>(
      {ids, x, table, table}, [&](const Weights& a) { kernels_.embeddingWeights(a); },
      {&Weights::tokenIds, &Weights::dx, &Weights::dTokens, &Weights::dPositions});
  EXPECT_THROW(kernels_.embedding({ids, table, make({2, kWidth}), x}), Error);  // 3 positions
  EXPECT_NO_THROW(kernels_.embedding({ids, table, {}, x}));
  EXPECT_NO_THROW(kernels_.embeddingWeights({ids, x, table, {}}));
  const Tensor at = make({3}, DType::Int32);
  expectAllChecked<Forward>({ids, table, make({1, kWidth}), x, at},
                            [&](const Forward& a) { kernels_.embedding(a); }, {&Forward::at});
  expectAllChecked<Weights>({ids, x, table, make({1, kWidth}), at},
                            [&](const Weights& a) { kernels_.embeddingWeights(a); },
                            {&Weights::at});
  tested_->finish();
  if (kernels_.dry()) return;
  at.as<int32_t>()[1] = static_cast<int32_t>(kVocabulary);
  EXPECT_THROW(kernels_.embedding({ids, table, table, x, at}), Error);
  EXPECT_THROW(kernels_.embeddingWeights({ids, x, table, table, at}), Error);
  for (int32_t id : {-1, static_cast<int32_t>(kVocabulary)}) {
    ids.as<int32_t>()[5] = id;
    EXPECT_THROW(kernels_.embedding({ids, table, table, x}), Error) << id;
    EXPECT_THROW(kernels_.embeddingWeights({ids, x, table, table}), Error) << id;
  }
}

TEST_P(Refusals, CrossEntropy) {
  const Tensor logits = make({kRows, kVocabulary}), labels = make({kRows}, DType::Int32);
  const Tensor statistics = make({kRows, 3}), all = make({2, kRows, 3});
  using Statistics = LogitStatisticsArgs;
  expectAllChecked<Statistics>(
      {.logits = logits, .labels = labels, .statistics = statistics, .vocabulary = kVocabulary},
      [&](const Statistics& a) { kernels_.logitStatistics(a); },
      {&Statistics::labels, &Statistics::statistics});
  using Loss = CrossEntropyArgs;
  expectAllChecked<Loss>(
      {.logits = logits, .labels = labels, .statistics = all, .vocabulary = kVocabulary},
      [&](const Loss& a) { kernels_.crossEntropy(a); }, {&Loss::labels, &Loss::statistics});
  rowsMayBeStrided_ = true;
  expectAllChecked<Statistics>(
      {.logits = logits, .labels = labels, .statistics = statistics, .vocabulary = kVocabulary},
      [&](const Statistics& a) { kernels_.logitStatistics(a); }, {&Statistics::logits});
  expectAllChecked<Loss>(
      {.logits = logits, .labels = labels, .statistics = all, .vocabulary = kVocabulary},
      [&](const Loss& a) { kernels_.crossEntropy(a); }, {&Loss::logits});
  const auto refused = [&](int64_t firstId, int64_t vocabulary) {
    EXPECT_THROW(kernels_.logitStatistics({.logits = logits,
                                           .labels = labels,
                                           .statistics = statistics,
                                           .firstId = firstId,
                                           .vocabulary = vocabulary}),
                 Error);
    EXPECT_THROW(kernels_.crossEntropy({.logits = logits,
                                        .labels = labels,
                                        .statistics = all,
                                        .firstId = firstId,
                                        .vocabulary = vocabulary}),
                 Error);
  };
  const auto without = [&](int64_t firstId, int64_t vocabulary) {
    kernels_.crossEntropy({.logits = logits,
                           .labels = labels,
                           .statistics = {},
                           .firstId = firstId,
                           .vocabulary = vocabulary});
  };
  EXPECT_NO_THROW(without(0, 0));
  EXPECT_NO_THROW(without(0, kVocabulary));
  EXPECT_THROW(without(0, kVocabulary + 2), Error);
  EXPECT_THROW(without(1, kVocabulary + 2), Error);
  labels.as<int32_t>()[0] = -1;
  refused(-1, 0);
  refused(1, 0);
  if (kernels_.dry()) return;
  for (int32_t label : {-2, static_cast<int32_t>(kVocabulary)}) {
    labels.as<int32_t>()[0] = label;
    refused(0, 0);
  }
  labels.as<int32_t>()[0] = kVocabulary + 2;
  refused(1, kVocabulary + 2);
}

// Of logits any one distance of rows is taken that is no less than their width.
TEST_P(Refusals, LogitsWhoseRowsAreNotEvenlyApart) {
  const Tensor whole = make({2, 3, kVocabulary + 3}), rows = whole.part(2, 0, kVocabulary);
  const Tensor labels = make({kRows}, DType::Int32), statistics = make({1, kRows, 3});
  const auto both = [&](const Tensor& logits) {
    kernels_.logitStatistics(
        {.logits = logits, .labels = labels, .statistics = statistics.view({kRows, 3})});
    kernels_.crossEntropy({.logits = logits, .labels = labels, .statistics = statistics});
  };
  EXPECT_NO_THROW(both(rows));
  EXPECT_NO_THROW(both(rows.matrix()));
  Tensor uneven = rows, overlapping = rows.matrix();
  uneven.strides[0] += 1;
  overlapping.strides[0] = kVocabulary - 1;
  for (const Tensor& wrong : {uneven, overlapping}) try {
      both(wrong);
      ADD_FAILURE() << "strides " << wrong.strides << " were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find("evenly apart"), std::string::npos) << error.what();
    }
}

TEST_P(Refusals, Optimizers) {
  const Tensor x = make({kRows, kWidth});
  // The others of a call, too.
  const auto of = [](const Tensor& one) {
    return AdamWTensors{.weight = one, .gradient = one, .first = one, .second = one};
  };
  const Tensor before = make({kRows, kWidth}), behind = make({kRows, kWidth});
  expectAllChecked<AdamWTensors>(of(x),
                                 [&](const AdamWTensors& a) {
                                   const AdamWTensors all[] = {of(before), a, of(behind)};
                                   kernels_.adamW({.tensors = all});
                                 },
                                 {&AdamWTensors::weight, &AdamWTensors::gradient,
                                  &AdamWTensors::first, &AdamWTensors::second});
  const auto sgd = [&](const SgdTensors& a) {
    const SgdTensors all[] = {{.weight = before, .gradient = before}, a};
    kernels_.sgd({.tensors = all});
  };
  expectAllChecked<SgdTensors>({.weight = x, .gradient = x}, sgd,
                               {&SgdTensors::weight, &SgdTensors::gradient});
  expectAllChecked<SgdTensors>({.weight = x, .gradient = x, .velocity = x}, sgd,
                               {&SgdTensors::weight, &SgdTensors::gradient, &SgdTensors::velocity});
}

TEST_P(Refusals, Gemm) {
  const Tensor a = make({2, 3}), b = make({3, 4}), c = make({2, 4});
  EXPECT_NO_THROW(kernels_.gemm({.a = a, .b = b, .c = c}));
  EXPECT_THROW(kernels_.gemm({.a = b, .b = a, .c = c}), Error);
  EXPECT_THROW(kernels_.gemm({.a = a, .b = b, .c = c, .transposeA = true}), Error);
  EXPECT_THROW(kernels_.gemm({.a = a, .b = b, .c = c, .transposeB = true}), Error);
  EXPECT_THROW(kernels_.gemm({.a = a, .b = make({3, 4}, DType::Float64), .c = c}), Error);
  EXPECT_THROW(kernels_.gemm({.a = a, .b = b, .c = make({8})}), Error);
}

// The kernels whose operands are no struct.
TEST_P(Refusals, PlainOperands) {
  struct Pair {
    Tensor first, second, third = {};
  };
  using Call = std::function<void(const Pair&)>;
  const Tensor x = make({kRows, kWidth}), vector = make({kWidth});
  const auto expectBoth = [&](const Pair& pair, const Call& call) {
    expectAllChecked<Pair>(pair, call, {&Pair::first, &Pair::second});
  };
  // Of these the matrix may be strided.
  expectAllChecked<Pair>({vector, x}, [&](const Pair& p) { kernels_.addBias(p.first, p.second); },
                         {&Pair::first});
  expectAllChecked<Pair>({x, vector},
                         [&](const Pair& p) { kernels_.biasGradient(p.first, p.second, 1); },
                         {&Pair::second});
  rowsMayBeStrided_ = true;
  expectBoth({x, x}, [&](const Pair& p) { kernels_.add(p.first, p.second); });
  rowsMayBeStrided_ = false;
  expectBoth({x, x}, [&](const Pair& p) { kernels_.gelu(p.first, p.second); });
  expectAllChecked<Pair>({x, x, x},
                         [&](const Pair& p) { kernels_.geluBackward(p.first, p.second, p.third); },
                         {&Pair::first, &Pair::second, &Pair::third});
  // Copies change types, but not shapes.
  Tensor strided = x, apart = x;
  strided.strides[0] += 1;
  apart.strides[1] = 2;
  EXPECT_NO_THROW(kernels_.copy(x, make({kRows, kWidth}, DType::Float64)));
  EXPECT_NO_THROW(kernels_.copy(make({3}, DType::UInt8), make({3}, DType::UInt8)));
  EXPECT_THROW(kernels_.copy(make({3}, DType::UInt8), make({3})), Error);
  EXPECT_THROW(kernels_.copy(make({3}), make({3}, DType::UInt8)), Error);
  EXPECT_THROW(kernels_.copy(x, make({kWidth, kRows})), Error);
  EXPECT_THROW(kernels_.copy(x, apart), Error);
  EXPECT_THROW(kernels_.copy(apart, x), Error);
  EXPECT_THROW(kernels_.fillZero(strided), Error);
  ExactSum sum;
  const Tensor both[] = {x, strided};
  EXPECT_THROW(kernels_.addSquares(both, sum), Error);
  EXPECT_NO_THROW(kernels_.addSquares({both, 1}, sum));
}

TEST_P(Refusals, TypesWithoutArithmetic) {
  const Tensor x = make({4}, DType::Int32);
  try {
    kernels_.add(x, x);
    ADD_FAILURE() << "int32 was added";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Refusals, testing::ValuesIn(testedDevices()), nameOfDevice);

}  // namespace
}  // namespace tutti::parallel
