// How fast fold() moves bytes, beside memcpy of the same run. Each row prints bytes per second over
// everything that the call reads and writes once (sources plus targets), so that rows compare.
//
// Names are  what/variant/sources/targets/size-of-one-buffer, "stream" asks for streaming stores.
// For ratios use  --benchmark_enable_random_interleaving=true --benchmark_repetitions=9 .

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/numbers/variants.h"

namespace tutti::numbers {
namespace {

/// Page-aligned float-like zeros; each buffer starts on a different line of its page, as buffers of
/// a real program do (all at one offset would fight for the same cache sets).
class Buffers {
 public:
  Buffers(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; ++i) {
      const size_t size = (bytes + 2 * kPage) / kPage * kPage;
      memory_.emplace_back(static_cast<char*>(std::aligned_alloc(kPage, size)), &std::free);
      std::memset(memory_.back().get(), 0, size);
      pointers_.push_back(memory_.back().get() + i * 64 % kPage);
    }
  }
  void* const* data() const { return pointers_.data(); }

 private:
  static constexpr size_t kPage = 4096;
  std::vector<std::unique_ptr<char, decltype(&std::free)>> memory_;
  std::vector<void*> pointers_;
};

void report(benchmark::State& state, size_t bytesPerCall) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytesPerCall));
}

void copyByMemcpy(benchmark::State& state, size_t bytes) {
  const Buffers buffers(2, bytes);
  for (auto _ : state) {
    std::memcpy(buffers.data()[1], buffers.data()[0], bytes);
    benchmark::ClobberMemory();
  }
  report(state, 2 * bytes);
}

struct Shape {
  std::string name;
  DataType type;
  ReduceOp op = ReduceOp::Sum;
  FoldOrder order = FoldOrder::Listed;
  size_t sources = 2, targets = 1;
  bool inPlace = false, streaming = false;
};

void foldShape(benchmark::State& state, const Variant& variant, const Shape& shape, size_t bytes) {
  const Buffers buffers(shape.sources + shape.targets, bytes);
  const std::vector<const void*> sources(buffers.data(), buffers.data() + shape.sources);
  void* const* out = buffers.data() + (shape.inPlace ? 0 : shape.sources);
  const FoldRequest request{.type = shape.type,
                            .op = shape.op,
                            .order = shape.order,
                            .sources = sources,
                            .targets = {out, shape.targets},
                            .count = bytes / sizeOf(shape.type),
                            .divideBy = shape.op == ReduceOp::Avg ? 2 : 1,
                            .streaming = shape.streaming};
  for (auto _ : state) {
    foldWith(*variant.kernels, request);
    benchmark::ClobberMemory();
  }
  report(state, (shape.sources + shape.targets) * bytes);
}

const std::vector<Shape>& shapes() {
  using enum DataType;
  constexpr auto kSum = ReduceOp::Sum;
  constexpr auto kListed = FoldOrder::Listed;
  static const std::vector<Shape> all{
      {"copy", Float32, kSum, kListed, 1, 1},
      {"copy_stream", Float32, kSum, kListed, 1, 1, false, true},
      {"copy_stream", Float32, kSum, kListed, 1, 3, false, true},
      {"float32", Float32, kSum, kListed, 2, 1},
      {"float32", Float32, kSum, kListed, 2, 2},
      {"float32_in_place", Float32, kSum, kListed, 2, 2, true},
      {"float32_stream", Float32, kSum, kListed, 2, 1, false, true},
      {"float32_stream", Float32, kSum, kListed, 2, 2, false, true},
      {"float32", Float32, kSum, kListed, 4, 4},
      {"float32", Float32, kSum, kListed, 8, 1},
      {"float32_tree", Float32, kSum, FoldOrder::Canonical, 8, 1},
      {"float32", Float32, kSum, kListed, 16, 1},
      {"float32", Float32, kSum, kListed, 32, 1},
      {"float32_max", Float32, ReduceOp::Max, kListed, 2, 1},
      {"float32_avg", Float32, ReduceOp::Avg, kListed, 2, 1},
      {"float64", Float64, kSum, kListed, 2, 1},
      {"bfloat16", BFloat16, kSum, kListed, 2, 1},
      {"bfloat16", BFloat16, kSum, kListed, 8, 1},
      {"bfloat16_tree", BFloat16, kSum, FoldOrder::Canonical, 8, 1},
      {"float16", Float16, kSum, kListed, 2, 1},
      {"float8_e4m3", Float8E4M3, kSum, kListed, 2, 1},
      {"float8_e5m2", Float8E5M2, kSum, kListed, 2, 1},
      {"int32", Int32, kSum, kListed, 2, 1},
      {"int32_avg", Int32, ReduceOp::Avg, kListed, 2, 1},
      {"int8", Int8, kSum, kListed, 2, 1},
  };
  return all;
}

void registerAll() {
  struct Size {
    const char* name;
    size_t bytes;
  };
  constexpr size_t kMiB = size_t{1} << 20;
  for (const auto& [name, bytes] : {Size{"8B", 8}, Size{"8KiB", 8192}, Size{"256KiB", kMiB / 4},
                                    Size{"4MiB", 4 * kMiB}, Size{"256MiB", 256 * kMiB}}) {
    benchmark::RegisterBenchmark(("memcpy/" + std::string(name)).c_str(), copyByMemcpy, bytes);
    for (const Variant& variant : variants())
      for (const Shape& shape : shapes()) {
        // Many buffers of the largest size do not fit a small machine.
        if (bytes > 4 * kMiB && shape.sources + shape.targets > 4) continue;
        const std::string row = shape.name + "/" + variant.name + "/" +
                                std::to_string(shape.sources) + "/" +
                                std::to_string(shape.targets) + "/" + name;
        benchmark::RegisterBenchmark(row.c_str(), foldShape, variant, shape, bytes);
      }
  }
}

}  // namespace
}  // namespace tutti::numbers

int main(int argc, char** argv) {
  tutti::numbers::registerAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
