#include "parallel/kernels/cuda/gemm/gemms.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

bool isOf16Bits(Format format) { return format == Format::BFloat16 || format == Format::Float16; }
int64_t bytesOf(Format format) { return isOf16Bits(format) ? 2 : 4; }

GemmShape shapeOf(const GemmProduct& x) { return {x.rows, x.columns, x.depth, x.batch}; }

/// Of all rows of a batch of matrices.
int32_t alignmentOf(const Matrix& x, int64_t batchStride) {
  const auto bits = reinterpret_cast<uintptr_t>(x.elements.data) |
                    static_cast<uintptr_t>(bytesOf(x.elements.format) * (x.stride | batchStride)) |
                    uintptr_t{16};
  return static_cast<int32_t>(bits & (~bits + 1));
}

/// Of all rows four elements from a multiple of four on are aligned.
bool isVector(const Matrix& x, int64_t batchStride) {
  const auto bytes = static_cast<uintptr_t>(4 * bytesOf(x.elements.format));
  return reinterpret_cast<uintptr_t>(x.elements.data) % bytes == 0 &&
         (x.stride | batchStride) % 4 == 0;
}

OutputWay wayOf(const GemmProduct& x) {
  const Epilogue& e = x.epilogue;
  if (e.activation != Activation::None) return OutputWay::Any;
  if (x.c.elements.format == Format::Float32)
    return e.scale == 1 && e.bias.data == nullptr && e.residual.elements.data == nullptr &&
                   x.columns % 2 == 0 && alignmentOf(x.c, x.strides.c) >= 8
               ? OutputWay::Pairs
               : OutputWay::Any;
  const auto fits = [&](const Elements& of, int32_t alignment, int32_t least) {
    return of.data == nullptr || (of.format == x.a.elements.format && alignment >= least);
  };
  const bool isLines = isOf16Bits(x.c.elements.format) && !x.accumulate && x.columns % 8 == 0 &&
                       fits(x.c.elements, alignmentOf(x.c, x.strides.c), 16) &&
                       fits(e.residual.elements, alignmentOf(e.residual, x.strides.residual), 16) &&
                       fits(e.bias, alignmentOf({e.bias, 0}, x.strides.bias), 4);
  return isLines ? OutputWay::Lines : OutputWay::Any;
}

/// Partial sums, in rows of a multiple of four: what is beyond c's columns is zero.
GemmOutput partialOf(const GemmProduct& x, float* partial, int32_t splits, int64_t splitStride) {
  const int64_t columns = splitStride / x.rows;
  return {.c = {{partial, Format::Float32}, columns},
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

bool isMapped(const Matrix& x, int64_t batchStride) {
  return batchStride == 0 ? isMappable(x.elements.data, {x.stride})
                          : isMappable(x.elements.data, {x.stride, batchStride});
}

/// The matrices that an operand has in a batch: one that is shared where they are 0 apart.
struct MatrixBatch {
  int64_t count, stride;
};

/// Boxes as a step takes them of an operand: `count` rows of a or columns of b, and kStepDepth.
/// `outers` by `depth` is the whole of a matrix.
MappedTensor boxesOf(const Matrix& from, const MatrixBatch& batch, bool isKMajor, int32_t outers,
                     int32_t depth, int32_t count) {
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
  const auto side = [](const Matrix& matrix, int64_t batchStride, int32_t outers, bool isKMajor) {
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

GemmOutput outputOf(const GemmProduct& x) {
  const Epilogue& e = x.epilogue;
  // Their right halves begin behind the last column of the left ones.
  const bool hasHalves =
      e.activation == Activation::SwiGlu || e.activation == Activation::SwiGluBackward;
  return {.c = x.c,
          .rows = x.rows,
          .columns = x.columns,
          .accumulate = x.accumulate,
          .isVector = (!hasHalves || x.columns % 4 == 0) && isVector(x.c, x.strides.c) &&
                      isVector(e.inner, x.strides.inner) &&
                      isVector(e.residual, x.strides.residual) &&
                      isVector({e.bias, 0}, x.strides.bias),
          .way = wayOf(x),
          .epilogue = e,
          .isScaled = e.scale != 1,
          .scale = static_cast<float>(e.scale),
          .batch = x.batch,
          .strides = x.strides,
          .splitStride = 0};
}

GemmChoice Gemms::choose(const GemmProduct& x) const {
  const Format format = x.a.elements.format;
  if (x.b.elements.format != format || x.c.elements.format == Format::Float64 || x.rows == 0 ||
      x.columns == 0 || x.depth == 0 || x.batch == 0)
    return {};
  const GemmForced* const tuned =
      options_.forced.isAnything() || x.batch > 1
          ? nullptr
          : options_.table.find({x.rows, x.columns, x.depth, !x.isKMajorA, x.isKMajorB,
                                 isOf16Bits(format) ? 16 : 32});
  return chooseGemm(shapeOf(x),
                    {.simt = format == Format::Float32,
                     .mma = isOf16Bits(format),
                     .wgmma = isOf16Bits(format) && isMapped(x.a, x.batchStrideA) &&
                              isMapped(x.b, x.batchStrideB)},
                    chip_, tuned == nullptr ? options_.forced : *tuned);
}

int64_t Gemms::partialSumsOf(const GemmProduct& x, const GemmChoice& choice) {
  return x.batch * choice.splits * sumsOfSplit(shapeOf(x), choice);
}

cudaError_t Gemms::enqueue(const GemmProduct& x, const GemmChoice& choice, float* partial,
                           cudaStream_t stream) {
  const GemmTiles tiles = tilesOf(shapeOf(x), choice);
  const GemmOutput result = outputOf(x);
  const int64_t splitStride = sumsOfSplit(shapeOf(x), choice);
  const GemmOutput out =
      splitStride == 0 ? result : partialOf(x, partial, choice.splits, splitStride);
  cudaError_t error = cudaSuccess;
  if (choice.family == GemmFamily::Wgmma)
    error = cuda::enqueue(wgmmaOf(x, choice, tiles, out), stream);
  else if (choice.family == GemmFamily::Simt)
    error = cuda::enqueue(SimtGemm{mmaOf(x, tiles, out)}, stream);
  else
    error = cuda::enqueue(mmaOf(x, tiles, out), stream);
  if (error != cudaSuccess || splitStride == 0) return error;
  return cuda::enqueue(SumSplits{.partial = partial,
                                 .stride = out.c.stride,
                                 .splitStride = splitStride,
                                 .batchStride = out.strides.c,
                                 .splits = choice.splits,
                                 .out = result},
                       stream);
}

WgmmaGemm Gemms::wgmmaOf(const GemmProduct& x, const GemmChoice& choice, const GemmTiles& tiles,
                         const GemmOutput& out) {
  const int32_t clusters = std::min(tiles.units, std::max(chip_.processors / choice.cluster, 1));
  const int32_t columns = choice.columns / choice.cluster;
  return {.a = maps_.of(
              boxesOf(x.a, {x.batch, x.batchStrideA}, x.isKMajorA, x.rows, x.depth, kTileRows)),
          .b = maps_.of(
              boxesOf(x.b, {x.batch, x.batchStrideB}, x.isKMajorB, x.columns, x.depth, columns)),
          .tiles = tiles,
          .out = out,
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
