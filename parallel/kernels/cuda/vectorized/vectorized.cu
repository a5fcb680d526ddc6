// arguments.h, vectorized.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/vectorized_device.cuh"

namespace tutti::parallel::cuda {
namespace {

Elements behind(const Elements& x, int64_t elements) {
  return {static_cast<char*>(x.data) + elements * bytesOf(x.format), x.format};
}

RunSpace spaceOf(const RowPlaces& one, const RowPlaces& other, int64_t count, int64_t width,
                 int32_t run) {
  return one.isContiguous != 0 && other.isContiguous != 0
             ? contiguousSpace(count, run)
             : rowSpace(count, width, one.extents[1], one.extents[2], run);
}
RunRows rowsOf(const Elements& x, const RowPlaces& places) {
  return {x, {places.strides[0], places.strides[1], places.strides[2]}};
}
RunRows rowsOf(const Elements& x, int64_t stride) { return {x, {0, 0, stride}}; }
/// Of one dimension.
RunSpace rowSpace(int64_t rows, int64_t width, int32_t run) {
  return cuda::rowSpace(rows * width, width, 1, rows, run);
}

template <class Step>
struct StepKernels {
  using TypedKernel = void (*)(Vectorized<Step>);
  template <int kFormat>
  static constexpr TypedKernel kOfOne = vectorized<8, Step, kFormat, kFormat>;
  static constexpr TypedKernel kFour = vectorized<4, Step, kFloat, kFloat>;

  static TypedKernel kernelOf(const Vectorized<Step>& x, int32_t run) {
    if (run == 4) return kFour;
    int common = narrowFormatOf({x.in[0].elements});
    for (const RunRows& each : x.in)
      if (int(each.elements.format) != common) common = kAnyFormat;
    for (const RunRows& each : x.out)
      if (int(each.elements.format) != common) common = kAnyFormat;
    return common == kBrain ? kOfOne<kBrain> : common == kHalf ? kOfOne<kHalf> : kOfOne<kAnyFormat>;
  }
  static cudaError_t start(TypedKernel kernel, const Vectorized<Step>& x, cudaStream_t stream) {
    return launch(kernel, blocksOf(x.space.runs, int64_t{kThreads} * Step::kRunsOfThread), kThreads,
                  x, stream);
  }
  static cudaError_t start(const Vectorized<Step>& x, int32_t run, cudaStream_t stream) {
    return start(kernelOf(x, run), x, stream);
  }
  static cudaError_t load() {
    return loadAll(kFour, kOfOne<kAnyFormat>, kOfOne<kBrain>, kOfOne<kHalf>);
  }
};

// Of 16 bits to float32: by runs of 4, so that neighbours store words that are neighbours, too.
constexpr auto kWidenBrain = vectorized<4, Converted, kBrain, kFloat>,
               kWidenHalf = vectorized<4, Converted, kHalf, kFloat>;
bool widens(const InRuns<Convert>& x) {
  constexpr int64_t kMostRuns = int64_t{1} << 31;  // what Divider divides
  return x.run == 8 && x.to.format == ElementFormat::Float32 && x.count / 4 < kMostRuns;
}

}  // namespace

cudaError_t enqueue(const InRuns<MoveRows>& x, cudaStream_t stream) {
  // A word of 16 bytes is an element.
  VectorizedMove words{.space = spaceOf(x.fromRows, x.toRows, x.count, x.width, x.run),
                       .from = rowsOf({const_cast<void*>(x.from), {}}, x.fromRows),
                       .to = rowsOf({x.to, {}}, x.toRows)};
  for (int d = 0; d < 3; ++d) words.from.strides[d] /= x.run, words.to.strides[d] /= x.run;
  return launch(vectorizedMove,
                blocksOf(words.space.runs, int64_t{kThreads} * VectorizedMove::kRunsOfThread),
                kThreads, words, stream);
}

cudaError_t enqueue(const InRuns<Convert>& x, cudaStream_t stream) {
  using Kernels = StepKernels<Converted>;
  const Vectorized<Converted> made{
      .space = spaceOf(x.fromRows, x.toRows, x.count, x.width, widens(x) ? 4 : x.run),
      .in = {rowsOf(x.from, x.fromRows)},
      .out = {rowsOf(x.to, x.toRows)},
      .step = {}};
  if (!widens(x)) return Kernels::start(made, x.run, stream);
  return Kernels::start(x.from.format == ElementFormat::BFloat16 ? kWidenBrain : kWidenHalf, made,
                        stream);
}

cudaError_t enqueue(const InRuns<AddRows>& x, cudaStream_t stream) {
  const RunRows to = rowsOf(x.to, x.toRows);
  return StepKernels<Added>::start({.space = spaceOf(x.fromRows, x.toRows, x.count, x.width, x.run),
                                    .in = {to, rowsOf(x.from, x.fromRows)},
                                    .out = {to},
                                    .step = {}},
                                   x.run, stream);
}

cudaError_t enqueue(const InRuns<AddBias>& x, cudaStream_t stream) {
  const RunRows y = rowsOf(x.y.elements, x.y.stride);
  return StepKernels<BiasAdded>::start({.space = rowSpace(x.rows, x.width, x.run),
                                        .in = {y, rowsOf(x.bias, 0)},
                                        .out = {y},
                                        .step = {}},
                                       x.run, stream);
}

cudaError_t enqueue(const InRuns<Gelu>& x, cudaStream_t stream) {
  const RunSpace space = contiguousSpace(x.count, x.run);
  const RunRows in = rowsOf(x.x, 0), out = rowsOf(x.y, 0);
  if (x.dy.data == nullptr)
    return StepKernels<GeluOf>::start({.space = space, .in = {in}, .out = {out}, .step = {}}, x.run,
                                      stream);
  return StepKernels<GeluSlopes>::start(
      {.space = space, .in = {rowsOf(x.dy, 0), in}, .out = {out}, .step = {}}, x.run, stream);
}

cudaError_t enqueue(const InRuns<SwiGlu>& x, cudaStream_t stream) {
  const RunSpace space = rowSpace(x.rows, x.width, x.run);
  const int64_t both = 2 * x.width;
  const RunRows gate = rowsOf(x.x, both), up = rowsOf(behind(x.x, x.width), both);
  if (x.dy.data == nullptr)
    return StepKernels<Gated>::start(
        {.space = space, .in = {gate, up}, .out = {rowsOf(x.y, x.width)}, .step = {}}, x.run,
        stream);
  return StepKernels<GatedBack>::start(
      {.space = space,
       .in = {rowsOf(x.dy, x.width), gate, up},
       .out = {rowsOf(x.y, both), rowsOf(behind(x.y, x.width), both)},
       .step = {}},
      x.run, stream);
}

cudaError_t enqueue(const InRuns<Rotary>& x, cudaStream_t stream) {
  const int64_t pairs = x.rows * x.heads * x.half;
  VectorizedRotary turned{.space = cuda::rowSpace(pairs, x.half, x.context, x.heads, x.run),
                          .first = {x.x, {x.context * x.columns, x.columns, 2 * int64_t{x.half}}},
                          .second = {},
                          .x = x};
  turned.second = turned.first;
  turned.second.elements = behind(x.x, x.half);
  return launch(x.run == 4 ? vectorizedRotary<4> : vectorizedRotary<8>,
                blocksOf(turned.space.runs, kThreads), kThreads, turned, stream);
}

cudaError_t loadStreamed() {
  cudaError_t error =
      loadAll(vectorizedMove, vectorizedRotary<4>, vectorizedRotary<8>, kWidenBrain, kWidenHalf);
  for (const auto load :
       {StepKernels<Converted>::load, StepKernels<Added>::load, StepKernels<BiasAdded>::load,
        StepKernels<GeluOf>::load, StepKernels<GeluSlopes>::load, StepKernels<Gated>::load,
        StepKernels<GatedBack>::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
