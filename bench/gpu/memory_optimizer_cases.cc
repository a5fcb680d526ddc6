// Calls of the optimizers, of one tensor and of many.

#include <array>

#include "bench/gpu/memory_case_maker.h"
#include "bench/gpu/memory_launches.h"
#include "parallel/kernels/exact_sum.h"

namespace tutti::bench {
namespace {

/// As many as GPT-2 of 124 million parameters has.
constexpr int64_t kWeights = 148;

/// Calls body(what gives a part of an operand) for so many parts of whole rows, of each row where
/// there are fewer.
template <class Body>
void forParts(Tensors x, int64_t parts, const Body& body) {
  const int64_t rows = x[0].shape[0];
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = i * rows / parts, end = (i + 1) * rows / parts;
    if (begin < end) body([&](size_t operand) { return x[operand].rows(begin, end - begin); });
  }
}

/// `hasCopy`: of 16 bits.
void adamW(Kernels& kernels, Tensors x, int64_t parts, bool hasCopy = false) {
  std::vector<parallel::AdamWTensors> all;
  forParts(x, parts, [&](const auto& part) {
    all.push_back({.weight = part(0),
                   .gradient = part(1),
                   .first = part(2),
                   .second = part(3),
                   .weightDecay = 0.125});
    if (hasCopy) all.back().copy = part(4);
  });
  kernels.adamW({.tensors = all, .learningRate = 0.125, .correction1 = 0.5, .correction2 = 0.25});
}

void sgd(Kernels& kernels, Tensors x, bool hasVelocity) {
  std::vector<parallel::SgdTensors> all;
  forParts(x, kWeights, [&](const auto& part) {
    all.push_back({.weight = part(0), .gradient = part(1)});
    if (hasVelocity) all.back().velocity = part(2);
  });
  kernels.sgd({.tensors = all, .learningRate = 0.125, .momentum = hasVelocity ? 0.5 : 0});
}

/// The call, and the kernel alone, whose limbs are checked as the sum that they are.
void addSquares(Maker& m, const std::string& name, int64_t parts) {
  const auto partsOf = [parts](Tensors x) {
    std::vector<Tensor> all;
    forParts(x.first(1), parts, [&](const auto& part) { all.push_back(part(0)); });
    return all;
  };
  MemoryCase squares{
      name, m.sizes.rows, m.period, {in(kWide, m.row())}, [=](Kernels& k, Tensors x) {
        parallel::ExactSum sum;
        k.addSquares(partsOf(x), sum);
        return sum.value();
      }};
  m.cases.push_back(squares);
  squares.name += kAlone;
  squares.operands.push_back(unasked(DType::Int64, parallel::ExactSum::kLimbs + 1));
  squares.launch = [=](Tensors x, CUstream_st* stream) {
    launchSumOfSquares({.all = partsOf(x), .limbs = x[1]}, stream);
  };
  squares.left = [](Gpu& gpu, Tensors x) {
    std::array<int64_t, parallel::ExactSum::kLimbs + 1> limbs{};
    gpu.readBytes(x[1], limbs.data());
    return parallel::ExactSum::fromLimbs(limbs).value();
  };
  m.cases.push_back(squares);
}

}  // namespace

void addOptimizer(Maker& m) {
  const ShapeOf row = m.row();
  m.rows("adamw",
         {updated(kWide, row), in(kWide, row), updated(kWide, row),
          updated(kWide, row, Content::Positive)},
         [](Kernels& k, Tensors x) { adamW(k, x, 1); });
  m.rows("adamw of many",
         {updated(kWide, row), in(kWide, row), updated(kWide, row),
          updated(kWide, row, Content::Positive)},
         [](Kernels& k, Tensors x) { adamW(k, x, kWeights); });
  m.rows("adamw of many with copies",
         {updated(kWide, row), in(kWide, row), updated(kWide, row),
          updated(kWide, row, Content::Positive), out(kNarrow, row)},
         [](Kernels& k, Tensors x) { adamW(k, x, kWeights, true); });
  m.rows("sgd of many", {updated(kWide, row), in(kWide, row), updated(kWide, row)},
         [](Kernels& k, Tensors x) { sgd(k, x, true); });
  m.rows("sgd of many without velocity", {updated(kWide, row), in(kWide, row)},
         [](Kernels& k, Tensors x) { sgd(k, x, false); });
  m.rows("cast of many to bfloat16", {in(kWide, row), out(kNarrow, row)},
         [](Kernels& k, Tensors x) {
           std::vector<parallel::TensorCopy> all;
           forParts(x, kWeights, [&](const auto& part) { all.push_back({part(0), part(1)}); });
           k.copyAll(all);
         });
  addSquares(m, "sum of squares", 1);
  addSquares(m, "sum of squares of many", kWeights);
}

}  // namespace tutti::bench
