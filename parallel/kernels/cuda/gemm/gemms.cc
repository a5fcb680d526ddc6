#include "parallel/kernels/cuda/gemm/gemms.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

bool isOf16Bits(Format format) { return format == Format::BFloat16 || format == Format::Float16; }
int64_t bytesOf(Format format) { return isOf16Bits(format) ? 2 : 4; }

GemmShape shapeOf(const GemmProduct& x) { return {x.rows, x.columns, x.depth}; }

/// Of all rows of a matrix.
int32_t alignmentOf(const Matrix& x) {
  const auto bits = reinterpret_cast<uintptr_t>(x.elements.data) |
                    static_cast<uintptr_t>(bytesOf(x.elements.format) * x.stride) | uintptr_t{16};
  return static_cast<int32_t>(bits & (~bits + 1));
}

GemmOutput outputOf(const GemmProduct& x, const Matrix& c, bool accumulate) {
  const int64_t bytes = bytesOf(c.elements.format);
  const auto begin = reinterpret_cast<uintptr_t>(c.elements.data);
  return {.c = c,
          .rows = x.rows,
          .columns = x.columns,
          .accumulate = accumulate,
          .isVector = begin % static_cast<uintptr_t>(4 * bytes) == 0 && c.stride % 4 == 0,
          .splitBytes = 0};
}

bool isMapped(const Matrix& x) { return isMappable(x.elements.data, {x.stride}); }

/// Boxes as a step takes them of an operand: `count` rows of a or columns of b, and kStepDepth.
/// `outers` by `depth` is the whole.
MappedTensor boxesOf(const Matrix& from, bool isKMajor, int32_t outers, int32_t depth,
                     int32_t count) {
  constexpr int32_t kSwizzledColumns = 64;
  return {.data = from.elements.data,
          .format = from.elements.format,
          .rank = 2,
          .size = {isKMajor ? depth : outers, isKMajor ? outers : depth, 1},
          .stride = {from.stride, 0},
          .box = {kSwizzledColumns, isKMajor ? count : kStepDepth, 1}};
}

MmaGemm mmaOf(const GemmProduct& x, const GemmTiles& tiles, const GemmOutput& out) {
  const auto side = [](const Matrix& matrix, int32_t outers, bool isKMajor) {
    return MmaSide{.data = matrix.elements.data,
                   .stride = matrix.stride,
                   .outers = outers,
                   .alignment = alignmentOf(matrix),
                   .isKMajor = isKMajor};
  };
  return {.tiles = tiles,
          .a = side(x.a, x.rows, x.isKMajorA),
          .b = side(x.b, x.columns, x.isKMajorB),
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

GemmChoice Gemms::choose(const GemmProduct& x) const {
  const Format format = x.a.elements.format;
  if (x.b.elements.format != format || x.c.elements.format == Format::Float64 || x.rows == 0 ||
      x.columns == 0 || x.depth == 0)
    return {};
  const GemmForced* const tuned =
      options_.forced.isAnything()
          ? nullptr
          : options_.table.find({x.rows, x.columns, x.depth, !x.isKMajorA, x.isKMajorB,
                                 isOf16Bits(format) ? 16 : 32});
  return chooseGemm(shapeOf(x),
                    {.simt = format == Format::Float32,
                     .mma = isOf16Bits(format),
                     .wgmma = isOf16Bits(format) && isMapped(x.a) && isMapped(x.b)},
                    chip_, tuned == nullptr ? options_.forced : *tuned);
}

int64_t Gemms::partialSumsOf(const GemmProduct& x, const GemmChoice& choice) {
  return choice.splits * sumsOfSplit(shapeOf(x), choice);
}

cudaError_t Gemms::enqueue(const GemmProduct& x, const GemmChoice& choice, float* partial,
                           cudaStream_t stream) {
  const GemmTiles tiles = tilesOf(shapeOf(x), choice);
  const GemmOutput result = outputOf(x, x.c, x.accumulate);
  GemmOutput out = result;
  const int64_t splitStride = sumsOfSplit(shapeOf(x), choice);
  if (splitStride > 0) {
    out = outputOf(x, {{partial, Format::Float32}, splitStride / x.rows}, false);
    out.splitBytes = splitStride * bytesOf(Format::Float32);
  }
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
                                 .splits = choice.splits,
                                 .out = result},
                       stream);
}

WgmmaGemm Gemms::wgmmaOf(const GemmProduct& x, const GemmChoice& choice, const GemmTiles& tiles,
                         const GemmOutput& out) {
  const int32_t clusters = std::min(tiles.units, std::max(chip_.processors / choice.cluster, 1));
  const int32_t columns = choice.columns / choice.cluster;
  return {.a = maps_.of(boxesOf(x.a, x.isKMajorA, x.rows, x.depth, kTileRows)),
          .b = maps_.of(boxesOf(x.b, x.isKMajorB, x.columns, x.depth, columns)),
          .tiles = tiles,
          .out = out,
          .format = x.a.elements.format,
          .isKMajorA = x.isKMajorA,
          .isKMajorB = x.isKMajorB,
          .schedule = choice.schedule,
          .tileColumns = choice.columns,
          .cluster = choice.cluster,
          .blocks = clusters * choice.cluster};
}

}  // namespace tutti::parallel::cuda
