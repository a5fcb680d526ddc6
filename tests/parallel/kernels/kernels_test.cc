// What the kernels refuse, those of all devices and those of a dry run alike: every operand of the
// wrong shape or type, strided where it must be contiguous; and ids outside the vocabulary, which a
// dry run does not look at. Their values are checked by gradcheck, the witness and leaves_test, and
// those of a GPU by cuda/.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kRows = 6, kWidth = 4, kVocabulary = 5;

class Operands : public testing::TestWithParam<TestedDevice> {
 protected:
  Tensor make(const Shape& shape, DType type = DType::Float32) {
    const Tensor x = tested_->allocate(type, shape);
    if (x.bytes() > 0) std::memset(x.data, 0, x.bytes());
    return x;
  }

  const std::unique_ptr<TestedKernels> tested_ = GetParam().make();
  Kernels& kernels_ = tested_->kernels();
  Arena arena_{"scratch"};
};

/// What is computed; a dry run computes nothing.
class Results : public Operands {};

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

// A part of a vocabulary: ids of the others are not taken for wrong, and what there is not is.
TEST_P(Results, EmbeddingOfAPartOfTheVocabulary) {
  const Tensor ids = make({2, 3}, DType::Int32), table = make({kVocabulary, kWidth});
  const Tensor x = make({2, 3, kWidth});
  for (int64_t i = 0; i < table.count(); ++i) table.as<float>()[i] = 1;
  const auto forward = [&](int64_t first, int64_t all) {
    kernels_.embedding({.tokenIds = ids,
                        .tokens = table,
                        .positions = {},
                        .x = x,
                        .firstId = first,
                        .vocabulary = all});
  };
  const auto backward = [&](int64_t first, int64_t all) {
    kernels_.embeddingWeights({.tokenIds = ids,
                               .dx = x,
                               .dTokens = table,
                               .dPositions = {},
                               .firstId = first,
                               .vocabulary = all});
  };
  ids.as<int32_t>()[1] = kVocabulary + 1;
  forward(2, kVocabulary + 2);
  tested_->finish();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(x.as<float>()[i * kWidth], i == 1 ? 1 : 0) << i;
  backward(2, kVocabulary + 2);
  tested_->finish();
  for (int64_t row = 0; row < kVocabulary; ++row)
    EXPECT_EQ(table.as<float>()[row * kWidth], row == kVocabulary - 1 ? 1 : 0) << row;
  EXPECT_THROW(forward(0, kVocabulary + 1), Error);  // an id beyond it
  EXPECT_THROW(backward(0, kVocabulary + 1), Error);
  for (const int64_t first : {-1, 3}) {  // rows beyond it
    EXPECT_THROW(forward(first, kVocabulary + 2), Error) << first;
    EXPECT_THROW(backward(first, kVocabulary + 2), Error) << first;
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

// Statistics, losses and gradients are to the bit those of each row by itself, and what lies in
// gaps is neither read, as NaN would show, nor written: with a label and without one, of a part of
// a vocabulary, and without the gradient.
TEST_P(Results, LogitsWithGapsBetweenRows) {
  constexpr int64_t kColumns = 21, kStride = 24, kAll = 40, kFirst = 9;
  const Tensor labels = make({kRows}, DType::Int32);
  const int32_t ids[] = {kFirst, kFirst + kColumns - 1, -1, kFirst + kColumns, 0, kFirst + 7};
  std::copy(std::begin(ids), std::end(ids), labels.as<int32_t>());
  const Tensor values = make({2, 3, kColumns}, DType::Float64);
  for (int64_t i = 0; i < values.count(); ++i)
    values.as<double>()[i] = static_cast<double>(i * i % 17) / 4 - 2;
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16})
    for (const bool gradient : {false, true}) {
      SCOPED_TRACE(std::string(toString(type)) + (gradient ? ", with the gradient" : ""));
      const auto loss = [&](const Tensor& logits, const Tensor& of, const Tensor& statistics) {
        kernels_.logitStatistics({.logits = logits,
                                  .labels = of,
                                  .statistics = statistics.matrix(),
                                  .firstId = kFirst,
                                  .vocabulary = kAll});
        return kernels_.crossEntropy({.logits = logits,
                                      .labels = of,
                                      .statistics = statistics,
                                      .scale = 0.5,
                                      .gradient = gradient,
                                      .firstId = kFirst,
                                      .vocabulary = kAll});
      };
      const Tensor memory = make({2, 3, kStride}, type), logits = memory.part(2, 0, kColumns);
      std::memset(memory.data, 0xff, memory.bytes());  // NaN in all types
      const Tensor statistics = make({1, kRows, 3}, statisticsType(type));
      kernels_.copy(values, logits);
      const double all = loss(logits, labels, statistics);
      double sum = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        const Tensor row = make({1, kColumns}, type), own = make({1, 1, 3}, statistics.type);
        kernels_.copy(values.matrix().rows(r, 1), row);
        sum += loss(row, labels.rows(r, 1), own);
        tested_->finish();
        const Tensor got = memory.matrix().rows(r, 1);
        EXPECT_EQ(std::memcmp(got.data, row.data, row.bytes()), 0) << "gradient of row " << r;
        EXPECT_EQ(std::memcmp(statistics.matrix().rows(r, 1).data, own.data, own.bytes()), 0) << r;
        const auto* const bytes = static_cast<const unsigned char*>(got.data);
        EXPECT_TRUE(std::all_of(bytes + row.bytes(), bytes + got.bytes(),
                                [](unsigned char byte) { return byte == 0xff; }))
            << "behind row " << r;
      }
      EXPECT_EQ(all, sum);
    }
}

// Of a whole vocabulary statistics need not be given: losses and gradients are then, to the bit,
// those of the statistics that the logits have.
TEST_P(Results, CrossEntropyWithoutStatistics) {
  constexpr int64_t kColumns = 21, kStride = 24;
  const Tensor labels = make({kRows}, DType::Int32);
  const int32_t ids[] = {0, kColumns - 1, -1, 7, 16, 3};
  std::copy(std::begin(ids), std::end(ids), labels.as<int32_t>());
  const Tensor values = make({kRows, kColumns}, DType::Float64);
  for (int64_t i = 0; i < values.count(); ++i)
    values.as<double>()[i] = static_cast<double>(i * i % 17) / 4 - 2;
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16})
    for (const int64_t stride : {kColumns, kStride})
      for (const bool gradient : {false, true}) {
        SCOPED_TRACE(
            message(toString(type), ", rows ", stride, " apart", gradient ? ", gradient" : ""));
        const Tensor one = make({kRows, stride}, type), two = make({kRows, stride}, type);
        const Tensor logits = one.part(1, 0, kColumns), same = two.part(1, 0, kColumns);
        kernels_.copy(values, logits);
        kernels_.copy(values, same);
        const Tensor statistics = make({1, kRows, 3}, statisticsType(type));
        kernels_.logitStatistics(
            {.logits = same, .labels = labels, .statistics = statistics.matrix()});
        CrossEntropyArgs args{.logits = same,
                              .labels = labels,
                              .statistics = statistics,
                              .scale = 0.5,
                              .gradient = gradient};
        const double loss = kernels_.crossEntropy(args);
        EXPECT_GT(loss, 0);
        args.logits = logits;
        args.statistics = {};
        EXPECT_EQ(kernels_.crossEntropy(args), loss);
        tested_->finish();
        EXPECT_EQ(std::memcmp(one.data, two.data, one.bytes()), 0);
      }
}

// Two halves of a vocabulary give the loss and the gradient of the whole, whichever has the larger
// logits and the label.
TEST_P(Results, CrossEntropyOfTwoParts) {
  const Tensor logits = make({2, 5}, DType::Float64), labels = make({2}, DType::Int32);
  const double values[] = {0.5, -1, 700, 2, 699, 3, -700, 0.25, 1, -2};
  std::copy(std::begin(values), std::end(values), logits.as<double>());
  labels.as<int32_t>()[0] = 4;
  labels.as<int32_t>()[1] = 1;
  const Tensor whole = make({1, 2, 3}, DType::Float64), both = make({2, 2, 3}, DType::Float64);
  const int64_t widths[] = {2, 3}, firsts[] = {0, 2};
  Tensor parts[2];
  for (size_t p = 0; p < 2; ++p) {
    parts[p] = make({2, widths[p]}, DType::Float64);
    for (int64_t r = 0; r < 2; ++r)
      std::copy_n(logits.as<double>() + r * 5 + firsts[p], widths[p],
                  parts[p].as<double>() + r * widths[p]);
    kernels_.logitStatistics({.logits = parts[p],
                              .labels = labels,
                              .statistics = both.rows(static_cast<int64_t>(p), 1),
                              .firstId = firsts[p],
                              .vocabulary = 5});
  }
  kernels_.logitStatistics({.logits = logits, .labels = labels, .statistics = whole});
  const double loss = kernels_.crossEntropy(
      {.logits = logits, .labels = labels, .statistics = whole, .scale = 0.5});
  EXPECT_NEAR(loss,
              1 + std::log1p(std::exp(-1.0)) + 703 +
                  std::log(1 + std::exp(-2.75) + std::exp(-2.0) + std::exp(-5.0)),
              1e-12);
  for (size_t p = 0; p < 2; ++p) {
    EXPECT_NEAR(kernels_.crossEntropy({.logits = parts[p],
                                       .labels = labels,
                                       .statistics = both,
                                       .scale = 0.5,
                                       .firstId = firsts[p],
                                       .vocabulary = 5}),
                loss, 1e-12);
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t i = 0; i < widths[p]; ++i)
        EXPECT_NEAR(parts[p].as<double>()[r * widths[p] + i],
                    logits.as<double>()[r * 5 + firsts[p] + i], 1e-15);
  }
}

// Biases of a part of the columns.
TEST_P(Results, BiasesOfStridedRows) {
  const Tensor whole = make({3, 7}), bias = make({2}), sums = make({2});
  const Tensor part = whole.part(1, 4, 2);
  bias.as<float>()[0] = 1, bias.as<float>()[1] = 2;
  kernels_.addBias(bias, part);
  tested_->finish();
  for (int64_t i = 0; i < whole.count(); ++i)
    EXPECT_EQ(whole.as<float>()[i], i % 7 == 4 ? 1 : i % 7 == 5 ? 2 : 0) << i;
  kernels_.biasGradient(part, sums, 0);
  tested_->finish();
  EXPECT_EQ(sums.as<float>()[0], 3);
  EXPECT_EQ(sums.as<float>()[1], 6);
  Tensor apart = part;
  apart.strides[1] = 2;
  EXPECT_THROW(kernels_.addBias(bias, apart), Error);
  EXPECT_THROW(kernels_.biasGradient(apart, sums, 0), Error);
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

// To the bit what a sum that is stored and a norm of that are, of widths with and without a rest.
TEST_P(Results, NormsOfASum) {
  struct Kinds {
    DType x, residual;
  };
  for (const Kinds& kinds :
       {Kinds{DType::Float64, DType::Float64}, Kinds{DType::Float32, DType::Float32},
        Kinds{DType::BFloat16, DType::BFloat16}, Kinds{DType::BFloat16, DType::Float32},
        Kinds{DType::Float32, DType::Float16}})
    for (const int64_t width : {1, 7, 64}) {
      const auto numbers = [&](const Shape& shape, DType type, double step) {
        const Tensor doubles = make(shape, DType::Float64), x = make(shape, type);
        for (int64_t i = 0; i < doubles.count(); ++i)
          doubles.as<double>()[i] = std::sin(step * static_cast<double>(i + 1));
        kernels_.copy(doubles, x);
        return x;
      };
      const Shape shape{3, width};
      const DType kept = statisticsType(kinds.x);
      const Tensor residual = numbers(shape, kinds.residual, 0.7),
                   weight = numbers({width}, kinds.x, 1.3), bias = numbers({width}, kinds.x, 2.9);
      for (const bool centered : {false, true}) {
        Tensor x[2], y[2], mean[2], rstd[2];
        for (int fused = 0; fused < 2; ++fused) {
          x[fused] = numbers(shape, kinds.x, 0.4);
          y[fused] = make(shape, kinds.x);
          mean[fused] = make({3}, kept), rstd[fused] = make({3}, kept);
          const Tensor added = fused != 0 ? residual : Tensor{};
          if (fused == 0) kernels_.add(residual, x[fused]);
          if (centered)
            kernels_.layerNorm({.x = x[fused],
                                .weight = weight,
                                .bias = bias,
                                .y = y[fused],
                                .mean = mean[fused],
                                .rstd = rstd[fused],
                                .residual = added});
          else
            kernels_.rmsNorm({.x = x[fused],
                              .weight = weight,
                              .y = y[fused],
                              .rstd = rstd[fused],
                              .residual = added});
        }
        tested_->finish();
        for (const auto& pair : {x, y, mean, rstd})
          EXPECT_EQ(std::memcmp(pair[0].data, pair[1].data, pair[0].bytes()), 0)
              << pair[0] << " with " << residual << ", " << (centered ? "layerNorm" : "rmsNorm");
      }
    }
}

/// Of counts that fill no run and no block.
int64_t sizeOfOneOfMany(int i) {
  constexpr int64_t kSizes[] = {1, 0, 5, 16, 9, 12, 33};
  return i == 3 ? 2048 : i == 4 ? 4099 : kSizes[i % 7];
}

// Of many tensors, more than a GPU has in one launch, of several types, and some of which begin
// behind a multiple of 16 bytes, each becomes what it becomes by itself. Copies of AdamW's weights,
// which every second one has, are what copy() makes of these then.
TEST_P(Results, OptimizersOfManyTensors) {
  constexpr int kMany = 210;
  constexpr DType kCopies[] = {DType::BFloat16, DType::Float16, DType::Float32};
  uint64_t state = 1;
  const auto number = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40) * 0x1p-23 - 1;
  };
  const auto filled = [&](int i, DType type, bool isPositive = false) {
    const Tensor all = make({sizeOfOneOfMany(i) + 1}, type);
    for (int64_t k = 0; k < all.count(); ++k) {
      const double value = isPositive ? 0.5 + std::abs(number()) : number();
      if (type == DType::Float64)
        all.as<double>()[k] = value;
      else if (type == DType::Float32)
        all.as<float>()[k] = static_cast<float>(value);
      else
        static_cast<uint16_t*>(all.data)[k] =
            static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
    }
    return all.rows(i % 3 == 0 ? 1 : 0, sizeOfOneOfMany(i));
  };
  const auto copied = [&](const Tensor& x) {
    const Tensor copy = make({x.count() + 1}, x.type).rows(0, x.count());
    if (x.bytes() > 0) std::memcpy(copy.data, x.data, x.bytes());
    return copy;
  };
  std::vector<AdamWTensors> adamW, adamWAlone;
  std::vector<SgdTensors> sgd, sgdAlone;
  for (int i = 0; i < kMany; ++i) {
    const DType kept = i % 50 == 7 ? DType::Float64 : DType::Float32;
    const DType gradients = kept == DType::Float32 && i >= 100 ? DType::BFloat16 : kept;
    adamW.push_back({.weight = filled(i, kept),
                     .gradient = filled(i, gradients),
                     .first = filled(i, kept),
                     .second = filled(i, kept, true),
                     .weightDecay = 0.125 * (i % 3),
                     .copy = i % 2 == 0 ? Tensor{} : filled(i, kCopies[i % 3])});
    const AdamWTensors& one = adamW.back();
    adamWAlone.push_back({copied(one.weight), copied(one.gradient), copied(one.first),
                          copied(one.second), one.weightDecay});
    sgd.push_back({.weight = filled(i, kept),
                   .gradient = one.gradient,
                   .velocity = i % 4 == 0 ? Tensor{} : filled(i, kept),
                   .weightDecay = one.weightDecay});
    sgdAlone.push_back({copied(sgd.back().weight), one.gradient,
                        i % 4 == 0 ? Tensor{} : copied(sgd.back().velocity), one.weightDecay});
  }
  AdamWArgs step{.tensors = adamW,
                 .gradientScale = 0.5,
                 .learningRate = 0.125,
                 .correction1 = 0.5,
                 .correction2 = 0.25};
  SgdArgs down{.tensors = sgd, .gradientScale = 0.5, .learningRate = 0.25, .momentum = 0.75};
  kernels_.adamW(step);
  kernels_.sgd(down);
  for (int i = 0; i < kMany; ++i) {
    step.tensors = {&adamWAlone[static_cast<size_t>(i)], 1};
    kernels_.adamW(step);
    down.tensors = {&sgdAlone[static_cast<size_t>(i)], 1};
    kernels_.sgd(down);
  }
  tested_->finish();
  const auto expectSame = [](const Tensor& x, const Tensor& y, int i) {
    EXPECT_TRUE(x.bytes() == 0 || std::memcmp(x.data, y.data, x.bytes()) == 0) << i << ": " << x;
  };
  for (size_t i = 0; i < adamW.size(); ++i) {
    const int at = static_cast<int>(i);
    expectSame(adamW[i].weight, adamWAlone[i].weight, at);
    expectSame(adamW[i].first, adamWAlone[i].first, at);
    expectSame(adamW[i].second, adamWAlone[i].second, at);
    if (adamW[i].copy.data != nullptr) {
      const Tensor expected = make(adamW[i].copy.shape, adamW[i].copy.type);
      kernels_.copy(adamWAlone[i].weight, expected);
      tested_->finish();
      expectSame(adamW[i].copy, expected, at);
    }
    expectSame(sgd[i].weight, sgdAlone[i].weight, at);
    if (sgd[i].velocity.data != nullptr) expectSame(sgd[i].velocity, sgdAlone[i].velocity, at);
  }
}

TEST_P(Results, SquaresOfManyTensors) {
  std::vector<Tensor> all;
  double expected = 0;
  for (int i = 0; i < 400; ++i) {
    const bool isDouble = i % 90 == 5;
    const Tensor x = make({i % 7 + 1}, isDouble ? DType::Float64 : DType::Float32);
    for (int64_t k = 0; k < x.count(); ++k) {
      const int value = static_cast<int>(k) - i % 5;
      if (isDouble)
        x.as<double>()[k] = value;
      else
        x.as<float>()[k] = static_cast<float>(value);
    }
    all.push_back(x.rows(0, i % 7));  // what is left out does not count
    for (int64_t k = 0; k < i % 7; ++k) expected += std::pow(static_cast<double>(k) - i % 5, 2);
  }
  ExactSum sum;
  kernels_.addSquares(all, sum);
  EXPECT_EQ(sum.value(), expected);
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

// Sums over nothing.
TEST_P(Results, GemmOfNoColumns) {
  const Tensor a = make({2, 0}), b = make({4, 0}), c = make({2, 4});
  for (int64_t i = 0; i < c.count(); ++i) c.as<float>()[i] = 3;
  kernels_.gemm({.a = a, .b = b, .c = c, .transposeB = true, .beta = 1});
  tested_->finish();
  EXPECT_EQ(c.as<float>()[7], 3);
  kernels_.gemm({.a = a, .b = b, .c = c, .transposeB = true});
  tested_->finish();
  EXPECT_EQ(c.as<float>()[7], 0);
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

TEST_P(Results, PlacesAndExpertsThatAreNotThere) {
  const Tensor x = make({2, 3}), placed = make({4, 3}), places = make({2, 1}, DType::Int32),
               logits = make({2, 3}), weights = make({2, 1}), rows = make({2}),
               pieces = make({1, 2, 3}, DType::Int32), choices = make({1, 3}, DType::Int32);
  std::vector<int64_t> loads(3);
  const auto all = [&](int32_t place, int32_t expert) {
    places.as<int32_t>()[1] = place;
    const Tensor chosen = make({2, 1}, DType::Int32);
    chosen.as<int32_t>()[1] = expert;
    int thrown = 0;
    const auto attempt = [&](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        ++thrown;
      }
    };
    attempt([&] { kernels_.spreadRows({.x = x, .places = places, .weights = {}, .y = placed}); });
    attempt([&] { kernels_.combineRows({.x = placed, .places = places, .weights = {}, .y = x}); });
    attempt([&] { kernels_.rowDots({.x = x, .y = placed, .places = places, .dots = weights}); });
    attempt([&] { kernels_.countChoices({.chosen = chosen, .choices = pieces, .early = 1}); });
    attempt([&] {
      kernels_.placeTokens({.chosen = chosen,
                            .places = make({2, 1}, DType::Int32),
                            .pieces = pieces,
                            .choices = choices,
                            .early = 1,
                            .length = 2,
                            .loads = loads});
    });
    attempt([&] {
      kernels_.routerGradient({.dWeights = weights,
                               .probabilities = logits,
                               .logSumExp = rows,
                               .chosen = chosen,
                               .weights = weights,
                               .choices = choices,
                               .dLogits = make({2, 3}),
                               .length = 2});
    });
    return thrown;
  };
  EXPECT_EQ(all(3, 2), 0);
  EXPECT_EQ(all(-1, 0), 0);
  EXPECT_EQ(all(4, 2), 3);
  EXPECT_EQ(all(-2, 2), 3);
  EXPECT_EQ(all(1, 3), 3);
  EXPECT_EQ(all(1, -1), 3);
}

const auto nameOfDevice = [](const testing::TestParamInfo<TestedDevice>& device) {
  return device.param.name;
};
INSTANTIATE_TEST_SUITE_P(Devices, Refusals, testing::ValuesIn(testedDevices()), nameOfDevice);
INSTANTIATE_TEST_SUITE_P(Devices, Results, testing::ValuesIn(computingDevices()), nameOfDevice);

}  // namespace
}  // namespace tutti::parallel
