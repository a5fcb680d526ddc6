// The calls that take many tensors at once: updates of weights, copies, and squares of gradients.

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"

namespace tutti::parallel {

using namespace cuda;

namespace {

AdamWUpdate referenceOf(const AdamWArgs& args, const AdamWTensors& tensors) {
  return {.weight = elementsOf(tensors.weight),
          .gradient = elementsOf(tensors.gradient),
          .first = elementsOf(tensors.first),
          .second = elementsOf(tensors.second),
          .count = tensors.weight.count(),
          .gradientScale = args.gradientScale,
          .learningRate = args.learningRate,
          .beta1 = args.beta1,
          .beta2 = args.beta2,
          .epsilon = args.epsilon,
          .weightDecay = tensors.weightDecay,
          .inverseCorrection1 = 1 / args.correction1,
          .inverseCorrection2 = 1 / args.correction2};
}

SgdUpdate referenceOf(const SgdArgs& args, const SgdTensors& tensors) {
  return {.weight = elementsOf(tensors.weight),
          .gradient = elementsOf(tensors.gradient),
          .velocity = elementsOf(tensors.velocity),
          .count = tensors.weight.count(),
          .gradientScale = args.gradientScale,
          .learningRate = args.learningRate,
          .weightDecay = tensors.weightDecay,
          .momentum = args.momentum};
}

AdamWRates ratesOf(const AdamWArgs& args) {
  return {.gradientScale = static_cast<float>(args.gradientScale),
          .learningRate = static_cast<float>(args.learningRate),
          .beta1 = static_cast<float>(args.beta1),
          .beta2 = static_cast<float>(args.beta2),
          .epsilon = static_cast<float>(args.epsilon),
          .weightDecay = 0,
          .inverseCorrection1 = static_cast<float>(1 / args.correction1),
          .inverseCorrection2 = static_cast<float>(1 / args.correction2)};
}

SgdRates ratesOf(const SgdArgs& args) {
  return {.gradientScale = static_cast<float>(args.gradientScale),
          .learningRate = static_cast<float>(args.learningRate),
          .weightDecay = 0,
          .momentum = static_cast<float>(args.momentum)};
}

/// Whether these are computed in float64.
bool areDoubles(AdamWTensors tensors) {
  widen(tensors.weight, tensors.gradient, tensors.first, tensors.second);
  requireOperands(tensors);
  return isDouble(tensors.weight);
}
bool areDoubles(SgdTensors tensors) {
  widen(tensors.weight, tensors.gradient, tensors.velocity);
  requireOperands(tensors);
  return isDouble(tensors.weight);
}

/// Enqueues the updates of tables with these rates.
template <int kOperands, class Rates>
auto updates(Queue& queue, const char* operation, const Rates& rates) {
  return tablesOf<kOperands>(kUpdateElements,
                             [&queue, operation, rates](const TensorTable<kOperands>& table) {
                               queue.start(operation, Updates<Rates, kOperands>{rates, table});
                             });
}

}  // namespace

void CudaKernels::adamW(const AdamWArgs& args) {
  auto tables = updates<4>(*queue_, "adamW", ratesOf(args));
  auto withCopy = updates<5>(*queue_, "adamW", ratesOf(args));
  std::vector<TensorCopy> copies;  // made by themselves
  for (const AdamWTensors& each : args.tensors) {
    const bool doubles = areDoubles(each),
               isReference = memoryBound_ == MemoryBoundFamily::Reference;
    const Elements weight = elementsOf(each.weight), gradient = elementsOf(each.gradient);
    const Elements first = elementsOf(each.first), second = elementsOf(each.second);
    const int64_t count = each.weight.count();
    const bool isCopied = each.copy.data != nullptr;
    if (isCopied && !doubles && !isReference && each.weight.type == DType::Float32 &&
        isNarrow(each.copy.type) && each.copy.contiguous()) {
      withCopy.add({weight, gradient, first, second, elementsOf(each.copy)}, count,
                   each.weightDecay);
      continue;
    }
    if (doubles || isReference)
      queue_->start("adamW", referenceOf(args, each), doubles);
    else
      tables.add({weight, gradient, first, second}, count, each.weightDecay);
    if (isCopied) copies.push_back({each.weight, each.copy});
  }
  tables.finish();
  withCopy.finish();
  copyAll(copies);
}

void CudaKernels::sgd(const SgdArgs& args) {
  auto tables = updates<2>(*queue_, "sgd", ratesOf(args));
  auto withVelocity = updates<3>(*queue_, "sgd", ratesOf(args));
  for (const SgdTensors& each : args.tensors) {
    const bool doubles = areDoubles(each);
    const Elements weight = elementsOf(each.weight), gradient = elementsOf(each.gradient);
    const int64_t count = each.weight.count();
    if (doubles || memoryBound_ == MemoryBoundFamily::Reference)
      queue_->start("sgd", referenceOf(args, each), doubles);
    else if (each.velocity.data == nullptr)
      tables.add({weight, gradient}, count, each.weightDecay);
    else
      withVelocity.add({weight, gradient, elementsOf(each.velocity)}, count, each.weightDecay);
  }
  tables.finish();
  withVelocity.finish();
}

/// Between types of up to 32 bits those whose elements adjoin go together.
void CudaKernels::copyAll(std::span<const TensorCopy> all) {
  auto tables = updates<2>(*queue_, "copy", CopyRates{});
  for (const auto& [from, to] : all) {
    Tensor wideFrom = from, wideTo = to;
    widen(wideFrom, wideTo);
    const bool isAlone = memoryBound_ == MemoryBoundFamily::Reference || from.type == to.type ||
                         wideFrom.type != DType::Float32 || wideTo.type != DType::Float32 ||
                         !from.contiguous() || !to.contiguous();
    if (isAlone) {
      copy(from, to);
    } else {
      requireCopy(from, to);
      tables.add({elementsOf(to), elementsOf(from)}, to.count());
    }
  }
  tables.finish();
}

/// Of all of them the host waits for one sum.
void CudaKernels::addSquares(std::span<const Tensor> all, ExactSum& sum) {
  if (all.empty()) return;
  constexpr int64_t kNumbers = ExactSum::kLimbs + 1;
  constexpr size_t kBytes = kNumbers * sizeof(int64_t);
  auto* const limbs = queue_->scratch<unsigned long long>(kNumbers);
  auto* const here = queue_->results<int64_t>(kNumbers);
  queue_->fillZero("addSquares", limbs, kBytes);
  auto tables = tablesOf<1>(kSumElements, [&](const TensorTable<1>& table) {
    queue_->start("addSquares", AddSquares{.table = table, .limbs = limbs},
                  table.formats[0] == ElementFormat::Float64);
  });
  for (const Tensor& each : all) {
    Tensor wide = each;
    widen(wide);
    requireContiguous("addSquares", wide);
    isDouble(wide);  // refuses other types
    tables.add({elementsOf(each)}, each.count());
  }
  tables.finish();
  queue_->copy("addSquares", here, limbs, kBytes);
  queue_->finish("addSquares", true);
  sum.add(ExactSum::fromLimbs({here, static_cast<size_t>(kNumbers)}));
}

}  // namespace tutti::parallel
