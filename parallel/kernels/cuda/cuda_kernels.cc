#include "parallel/kernels/cuda/cuda_kernels.h"

#include "parallel/kernels/cuda/attention/attentions.h"
#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"

namespace tutti::parallel {

using namespace cuda;

CudaKernels::CudaKernels(StreamRef stream) : CudaKernels(stream, GemmOptions::fromEnvironment()) {}
CudaKernels::CudaKernels(StreamRef stream, const GemmOptions& gemms)
    : device_(stream.device()),
      queue_(std::make_unique<Queue>(stream)),
      gemms_(std::make_unique<Gemms>(chipOf(device_.index), gemms)),
      attentions_(std::make_unique<Attentions>(
          attentionOfGpu(chipOf(device_.index).capability, attentionOfEnvironment()),
          chipOf(device_.index).processors)),
      memoryBound_(memoryBoundOfEnvironment()) {
  ensure(Gemms::arrivalsOf(chipOf(device_.index)) <= Queue::kZeros,
         "more multiprocessors than zeros");
}
CudaKernels::~CudaKernels() = default;

void CudaKernels::beginSequence() { queue_->keep(); }
void CudaKernels::endSequence() { queue_->keepNoMore(); }
void CudaKernels::abandonSequence() noexcept { queue_->abandon(); }
int64_t CudaKernels::graphLaunches() const { return queue_->graphLaunches(); }

void CudaKernels::fillZero(const Tensor& x) {
  requireContiguous("fillZero", x);
  queue_->fillZero("fillZero", x.data, x.bytes());
}

void CudaKernels::copy(const Tensor& from, const Tensor& to) {
  requireCopy(from, to);
  if (from.type == to.type && from.contiguous() && to.contiguous())
    return queue_->copy("copy", to.data, from.data, to.bytes());
  if (from.type == to.type)
    return queue_->start(
        "copy", ChosenMemoryBound{memoryBound_,
                                  MoveRows{.from = from.data,
                                           .to = to.data,
                                           .fromRows = rowPlacesOf(from),
                                           .toRows = rowPlacesOf(to),
                                           .count = to.count(),
                                           .width = width(to),
                                           .elementBytes = static_cast<int32_t>(sizeOf(to.type))}});
  Tensor wideFrom = from, wideTo = to;
  widen(wideFrom, wideTo);
  for (const Tensor& operand : {wideFrom, wideTo}) isDouble(operand);  // refuses other types
  queue_->start("copy", ChosenMemoryBound{memoryBound_, Convert{.from = elementsOf(from),
                                                                .to = elementsOf(to),
                                                                .fromRows = rowPlacesOf(from),
                                                                .toRows = rowPlacesOf(to),
                                                                .count = to.count(),
                                                                .width = width(to)}});
}

void CudaKernels::addBias(const Tensor& bias, const Tensor& y) {
  Tensor wideBias = bias, wideY = y;
  widen(wideBias, wideY);
  requireAddBias(wideBias, wideY);
  queue_->start(
      "addBias",
      ChosenMemoryBound{
          memoryBound_,
          AddBias{.bias = elementsOf(bias), .y = matrixOf(y), .rows = rows(y), .width = width(y)}},
      isDouble(wideY));
}

void CudaKernels::biasGradient(const Tensor& dy, const Tensor& db, double beta) {
  Tensor wideDy = dy, wideDb = db;
  widen(wideDy, wideDb);
  requireBiasGradient(wideDy, wideDb);
  startSums("biasGradient",
            {.dy = matrixOf(dy),
             .x = {},
             .mean = {},
             .rstd = {},
             .sums = elementsOf(db),
             .sumsOfDy = {},
             .partial = nullptr,
             .arrivals = {},
             .rows = sizeOf32(rows(dy)),
             .width = sizeOf32(width(dy)),
             .accumulate = beta != 0,
             .accumulateOfDy = 0},
            isDouble(wideDy));
}

void CudaKernels::startSums(const char* operation, ColumnSums sums, bool doubles) {
  const int64_t partial = memoryBound_ == MemoryBoundFamily::Reference ? 0 : partialSumsOf(sums);
  if (partial > 0) {
    sums.partial = queue_->scratch<float>(partial);
    sums.arrivals = {queue_->zeros(), Queue::kZeros};
  }
  queue_->start(operation, ChosenMemoryBound{memoryBound_, sums}, doubles);
}

void CudaKernels::add(const Tensor& from, const Tensor& to) {
  Tensor wideFrom = from, wideTo = to;
  widen(wideFrom, wideTo);
  requireAdd(wideFrom, wideTo);
  queue_->start("add",
                ChosenMemoryBound{memoryBound_, AddRows{.from = elementsOf(from),
                                                        .to = elementsOf(to),
                                                        .fromRows = rowPlacesOf(from),
                                                        .toRows = rowPlacesOf(to),
                                                        .count = to.count(),
                                                        .width = width(to)}},
                isDouble(wideTo));
}

void CudaKernels::gelu(const Tensor& x, const Tensor& y) {
  Tensor wideX = x, wideY = y;
  widen(wideX, wideY);
  requireGelu(wideX, wideY);
  queue_->start(
      "gelu",
      ChosenMemoryBound{memoryBound_,
                        Gelu{.dy = {}, .x = elementsOf(x), .y = elementsOf(y), .count = x.count()}},
      isDouble(wideX));
}

void CudaKernels::geluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  Tensor wideDy = dy, wideX = x, wideDx = dx;
  widen(wideDy, wideX, wideDx);
  requireGeluBackward(wideDy, wideX, wideDx);
  queue_->start(
      "geluBackward",
      ChosenMemoryBound{
          memoryBound_,
          Gelu{.dy = elementsOf(dy), .x = elementsOf(x), .y = elementsOf(dx), .count = x.count()}},
      isDouble(wideX));
}

void CudaKernels::swiGlu(const Tensor& x, const Tensor& y) {
  Tensor wideX = x, wideY = y;
  widen(wideX, wideY);
  requireSwiGlu(wideX, wideY);
  queue_->start("swiGlu",
                ChosenMemoryBound{memoryBound_, SwiGlu{.dy = {},
                                                       .x = elementsOf(x),
                                                       .y = elementsOf(y),
                                                       .rows = rows(y),
                                                       .width = width(y)}},
                isDouble(wideX));
}

void CudaKernels::swiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  Tensor wideDy = dy, wideX = x, wideDx = dx;
  widen(wideDy, wideX, wideDx);
  requireSwiGluBackward(wideDy, wideX, wideDx);
  queue_->start("swiGluBackward",
                ChosenMemoryBound{memoryBound_, SwiGlu{.dy = elementsOf(dy),
                                                       .x = elementsOf(x),
                                                       .y = elementsOf(dx),
                                                       .rows = rows(dy),
                                                       .width = width(dy)}},
                isDouble(wideX));
}

void CudaKernels::rotary(const RotaryArgs& args) {
  RotaryArgs a = args;
  widen(a.x, a.cosine, a.sine);
  requireOperands(a);
  const bool doubles = isDouble(a.x);
  const int64_t positions = a.cosine.shape[0];
  const Rotary call{.x = elementsOf(args.x),
                    .cosine = elementsOf(args.cosine),
                    .sine = elementsOf(args.sine),
                    .at = numbersOf(a.at),
                    .rows = rows(a.x),
                    .columns = width(a.x),
                    .context = sizeOf32(a.x.shape[1]),
                    .positions = sizeOf32(positions),
                    .heads = sizeOf32(a.heads),
                    .half = sizeOf32(a.headWidth / 2),
                    .back = a.back};
  if (a.at.data != nullptr) queue_->checkValues("rotary: id ", a.at, 0, positions);
  queue_->start("rotary", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("rotary");
}

}  // namespace tutti::parallel
