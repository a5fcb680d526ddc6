// What the kernels compute on every device in cases of their own: parts of a vocabulary, gaps
// between rows, many tensors at once. Their other values are checked by gradcheck, the witness and
// leaves_test, and those of a GPU by cuda/.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "tests/parallel/kernels/operands.h"

namespace tutti::parallel {
namespace {

/// What is computed; a dry run computes nothing.
class Results : public Operands {};

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

INSTANTIATE_TEST_SUITE_P(Devices, Results, testing::ValuesIn(computingDevices()), nameOfDevice);

}  // namespace
}  // namespace tutti::parallel
