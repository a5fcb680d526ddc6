#include "parallel/kernels/cuda/gemm/gemms.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

bool isOf16Bits(ElementFormat format) {
  return format == ElementFormat::BFloat16 || format == ElementFormat::Float16;
}

GemmShape shapeOf(const GemmProduct& x) { return {x.rows, x.columns, x.depth, x.batch}; }

/// Of all rows of a batch of matrices.
int32_t alignmentOf(const DeviceMatrix& x, int64_t batchStride) {
  const auto bits = reinterpret_cast<uintptr_t>(x.elements.data) |
                    static_cast<uintptr_t>(bytesOf(x.elements.format) * (x.stride | batchStride)) |
                    uintptr_t{16};
  return static_cast<int32_t>(bits & (~bits + 1));
}

/// Of all rows four elements from a multiple of four on are aligned.
bool isVector(const DeviceMatrix& x, int64_t batchStride) {
  const auto bytes = static_cast<uintptr_t>(4 * bytesOf(x.elements.format));
  return reinterpret_cast<uintptr_t>(x.elements.data) % bytes == 0 &&
         (x.stride | batchStride) % 4 == 0;
}

/// Of SwiGLU: the right halves begin behind the last column of the left ones.
bool hasHalves(Activation x) { return x == Activation::SwiGlu || x == Activation::SwiGluBackward; }

bool isForPairs(const GemmProduct& x) {
  const Epilogue& e = x.epilogue;
  return e.activation == Activation::None && e.scale == 1 && e.bias.data == nullptr &&
         e.residual.elements.data == nullptr && x.columns % 2 == 0 &&
         alignmentOf(x.c, x.strides.c) >= 8;
}

bool isForLines(const GemmProduct& x) {
  const Epilogue& e = x.epilogue;
  const auto fits = [&](const DeviceMatrix& of, int64_t batchStride, int32_t least) {
    return of.elements.data == nullptr ||
           (of.elements.format == x.a.elements.format && alignmentOf(of, batchStride) >= least);
  };
  const bool hasResidual = e.residual.elements.data != nullptr;
  if (e.activation != Activation::None && (hasResidual || x.accumulate)) return false;
  if (hasHalves(e.activation) && x.columns % 8 != 0) return false;
  return !(hasResidual && x.accumulate) && (e.bias.data == nullptr || x.columns % 2 == 0) &&
         fits(x.c, x.strides.c, 16) && fits(e.inner, x.strides.inner, 16) &&
         fits(e.residual, x.strides.residual, 16) && fits({e.bias, 0}, x.strides.bias, 4);
}

OutputWay wayOf(const GemmProduct& x) {
  if (x.c.elements.format == ElementFormat::Float32)
    return isForPairs(x) ? OutputWay::Pairs : OutputWay::Any;
  return isOf16Bits(x.c.elements.format) && isForLines(x) ? OutputWay::Lines : OutputWay::Any;
}

/// Partial sums, in rows of a multiple of four: what is beyond c's columns is zero.
GemmOutput partialOf(const GemmProduct& x, float* partial, int32_t splits, int64_t splitStride) {
  const int64_t columns = splitStride / x.rows;
  return {.c = {{partial, ElementFormat::Float32}, columns},
          .rows = x.rows,
          .columns = static_cast<int32_t>(columns),
          .accumulate = false,
          .isVector = true,
          .way = OutputWay::Pairs,
          .epilogue = {},
          .isScaled = false,
          .scale = 1,
          .batch = x.batch,
          .strides = {.c = splits * splitStride},
          .splitStride = splitStride};
}

bool isMapped(const DeviceMatrix& x, int64_t batchStride) {
  return batchStride == 0 ? isMappable(x.elements.data, {x.stride})
                          : isMappable(x.elements.data, {x.stride, batchStride});
}

/// The matrices that an operand has in a batch: one that is shared where they are 0 apart.
struct MatrixBatch {
  int64_t count, stride;
};

/// Boxes as a step takes them of an operand: `count` rows of a or columns of b, and kStepDepth.
/// `outers` by `depth` is the whole of a matrix.
MappedTensor boxesOf(const DeviceMatrix& from, const MatrixBatch& batch, bool isKMajor,
                     int32_t outers, int32_t depth, int32_t count) {
  constexpr int32_t kSwizzledColumns = 64;
  const bool isShared = batch.stride == 0;
  return {
      .data = from.elements.data,
      .format = from.elements.format,
      .size = {isKMajor ? depth : outers, isKMajor ? outers : depth, isShared ? 1 : batch.count},
      .stride = {from.stride, isShared ? from.stride : batch.stride},
      .box = {kSwizzledColumns, isKMajor ? count : kStepDepth, 1}};
}

MmaGemm mmaOf(const GemmProduct& x, const GemmTiles& tiles, const GemmOutput& out) {
  const auto side = [](const DeviceMatrix& matrix, int64_t batchStride, int32_t outers,
                       bool isKMajor) {
    return MmaSide{.data = matrix.elements.data,
                   .stride = matrix.stride,
                   .batchStride = batchStride,
                   .outers = outers,
                   .alignment = alignmentOf(matrix, batchStride),
                   .isKMajor = isKMajor};
  };
  return {.tiles = tiles,
          .a = side(x.a, x.batchStrideA, x.rows, x.isKMajorA),
          .b = side(x.b, x.batchStrideB, x.columns, x.isKMajorB),
          .depth = x.depth,
          .format = x.a.elements.format,
          .out = out};
}

}  // namespace

GemmChip chipOf(int device) {
  const auto attribute = [device](cudaDeviceAttr which) {
    int value = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&value, which, device);
    if (error != cudaSuccess)
      fail(ErrorCode::Cuda, "cudaDeviceGetAttribute on cuda:", device, ": ",
           cudaGetErrorName(error));
    return value;
  };
  return {.processors = attribute(cudaDevAttrMultiProcessorCount),
          .capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                        attribute(cudaDevAttrComputeCapabilityMinor)};
}

GemmKey keyOf(const GemmProduct& x) {
  const auto bits = [](const DeviceMatrix& of) { return isOf16Bits(of.elements.format) ? 16 : 32; };
  return {x.rows, x.columns, x.depth, !x.isKMajorA, x.isKMajorB, bits(x.a), bits(x.c)};
}

GemmOutput outputOf(const GemmProduct& x) {
  const Epilogue& e = x.epilogue;
  GemmOutput out{.c = x.c,
                 .rows = x.rows,
                 .columns = x.columns,
                 .accumulate = x.accumulate,
                 .isVector = (!hasHalves(e.activation) || x.columns % 4 == 0) &&
                             isVector(x.c, x.strides.c) && isVector(e.inner, x.strides.inner) &&
                             isVector(e.residual, x.strides.residual) &&
                             isVector({e.bias, 0}, x.strides.bias),
                 .way = wayOf(x),
                 .epilogue = e,
                 .isScaled = e.scale != 1,
                 .scale = static_cast<float>(e.scale),
                 .batch = x.batch,
                 .strides = x.strides,
                 .splitStride = 0};
  if (out.way == OutputWay::Lines && x.accumulate) {
    out.epilogue.residual = x.c, out.strides.residual = x.strides.c;
    out.accumulate = false;
  }
  return out;
}

GemmChoice Gemms::choose(const GemmProduct& x) const {
  const ElementFormat format = x.a.elements.format;
  if (x.b.elements.format != format || x.c.elements.format == ElementFormat::Float64 ||
      x.rows == 0 || x.columns == 0 || x.depth == 0 || x.batch == 0)
    return {};
  const GemmForced* const tuned =
      options_.forced.isAnything() || x.batch > 1 ? nullptr : options_.table.find(keyOf(x));
  return chooseGemm(shapeOf(x),
                    {.simt = format == ElementFormat::Float32,
                     .mma = isOf16Bits(format),
                     .wgmma = isOf16Bits(format) && isMapped(x.a, x.batchStrideA) &&
                              isMapped(x.b, x.batchStrideB)},
                    chip_, tuned == nullptr ? options_.forced : *tuned);
}

int64_t Gemms::partialSumsOf(const GemmProduct& x, const GemmChoice& choice) {
  return x.batch * choice.splits * sumsOfSplit(shapeOf(x), choice) + sumsOfFragments(choice);
}

cudaError_t Gemms::enqueue(const GemmProduct& x, const GemmChoice& choice,
                           const GemmScratch& scratch, cudaStream_t stream) {
  const GemmTiles tiles = tilesOf(shapeOf(x), choice);
  const GemmOutput result = outputOf(x);
  const int64_t splitStride = sumsOfSplit(shapeOf(x), choice);
  const GemmOutput out =
      splitStride == 0 ? result : partialOf(x, scratch.partial, choice.splits, splitStride);
  cudaError_t error = cudaSuccess;
  if (choice.family == GemmFamily::Wgmma)
    error = cuda::enqueue(wgmmaOf(x, choice, tiles, out, scratch), stream);
  else if (choice.family == GemmFamily::Simt)
    error = cuda::enqueue(SimtGemm{mmaOf(x, tiles, out)}, stream);
  else
    error = cuda::enqueue(mmaOf(x, tiles, out), stream);
  if (error != cudaSuccess || splitStride == 0) return error;
  return cuda::enqueue(SumSplits{.partial = scratch.partial,
                                 .stride = out.c.stride,
                                 .splitStride = splitStride,
                                 .batchStride = out.strides.c,
                                 .splits = choice.splits,
                                 .out = result},
                       stream);
}

WgmmaGemm Gemms::wgmmaOf(const GemmProduct& x, const GemmChoice& choice, const GemmTiles& tiles,
                         const GemmOutput& out, const GemmScratch& scratch) {
  const int32_t clusters =
      choice.workers != 0 ? choice.workers
                          : std::min(tiles.units, std::max(chip_.processors / choice.cluster, 1));
  const int32_t columns = choice.columns / choice.cluster;
  return {.a = maps_.of(
              boxesOf(x.a, {x.batch, x.batchStrideA}, x.isKMajorA, x.rows, x.depth, kTileRows)),
          .b = maps_.of(
              boxesOf(x.b, {x.batch, x.batchStrideB}, x.isKMajorB, x.columns, x.depth, columns)),
          .tiles = tiles,
          .out = out,
          .fragments = scratch.partial,
          .arrivals = scratch.arrivals,
          .format = x.a.elements.format,
          .isKMajorA = x.isKMajorA,
          .isKMajorB = x.isKMajorB,
          .isSharedA = x.batchStrideA == 0,
          .isSharedB = x.batchStrideB == 0,
          .schedule = choice.schedule,
          .tileColumns = choice.columns,
          .cluster = choice.cluster,
          .blocks = clusters * choice.cluster};
}

}  // namespace tutti::parallel::cuda
