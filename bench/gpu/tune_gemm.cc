// tune_gemm [--repeats N] [--out FILE] [ROWSxCOLUMNSxDEPTH:nn|nt|tn|tt[:float32|:gradient] ...]:
// times every row of the table of tiles (parallel/kernels/cuda/gemm/choice.cc) with several splits,
// and by stream-K, on the products given, or on layers of GPT-2 and Llama 3, says what the model of
// costs had predicted, and writes what was fastest to FILE, for TUTTI_GEMM_TABLE. Operands are
// random; a time is the median. Operands and results are bfloat16, with :float32 both of that, and
// with :gradient the result is float32 and added to, as gradients of weights are.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <tutti/error.h>

#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {
namespace {

constexpr const char* kLayers[] = {
    "16384x2304x768:nt",          "16384x768x2304:nn",          "2304x768x16384:tn:gradient",
    "16384x768x768:nt",           "768x768x16384:tn:gradient",  "16384x3072x768:nt",
    "16384x768x3072:nt",          "3072x768x16384:tn:gradient", "8192x4096x4096:nt",
    "8192x4096x4096:nn",          "4096x4096x8192:tn:gradient", "8192x28672x4096:nt",
    "8192x4096x14336:nt",         "8192x8192x8192:nt",          "1024x1024x1024:nt",
    "768x3072x16384:tn:gradient", "2304x768x8192:tn:gradient",  "768x768x8192:tn:gradient",
    "3072x768x8192:tn:gradient",  "768x3072x8192:tn:gradient",
};
constexpr int32_t kStreamK = 0;
constexpr int32_t kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, kStreamK};
constexpr int64_t kMostPartialSums = int64_t{64} << 20;  ///< more splits than that is worth nothing

void check(cudaError_t error) {
  if (error != cudaSuccess) fail(ErrorCode::Cuda, cudaGetErrorString(error));
}

struct Options {
  int repeats = 10;
  std::string out;
  std::vector<std::string> products;
};

struct Problem {
  int64_t rows, columns, depth;
  bool isTransposedA, isTransposedB;
  ElementFormat format, result;
  bool accumulate;
};

Problem parse(const std::string& text) {
  long long rows = 0, columns = 0, depth = 0;
  char a = 0, b = 0, more = 0;
  const bool isFloat = text.ends_with(":float32"), isGradient = text.ends_with(":gradient");
  const std::string shape = isFloat || isGradient ? text.substr(0, text.rfind(':')) : text;
  const int count =
      std::sscanf(shape.c_str(), "%lldx%lldx%lld:%c%c%c", &rows, &columns, &depth, &a, &b, &more);
  require(count == 5 && std::min({rows, columns, depth}) > 0 &&
              std::max({rows, columns, depth}) < (1 << 30) && (a == 'n' || a == 't') &&
              (b == 'n' || b == 't'),
          text,
          " is not ROWSxCOLUMNSxDEPTH:nn, :nt, :tn or :tt, with :float32 or :gradient or without");
  return {.rows = rows,
          .columns = columns,
          .depth = depth,
          .isTransposedA = a == 't',
          .isTransposedB = b == 't',
          .format = isFloat ? ElementFormat::Float32 : ElementFormat::BFloat16,
          .result = isFloat || isGradient ? ElementFormat::Float32 : ElementFormat::BFloat16,
          .accumulate = isGradient};
}

class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    check(cudaMalloc(&data_, bytes_));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  /// With random numbers near 1, of 16 bits or of float32, whichever is read; they come again after
  /// 2 MiB less some bytes.
  void fill() {
    std::vector<uint16_t> numbers((1 << 20) - 3);
    uint32_t state = 1;
    for (uint16_t& number : numbers) {
      state = state * 1664525u + 1013904223u;
      number = static_cast<uint16_t>(0x3f00u | (state >> 16 & 0x80ffu));
    }
    for (size_t at = 0; at < bytes_; at += 2 * numbers.size())
      check(cudaMemcpy(static_cast<char*>(data_) + at, numbers.data(),
                       std::min(2 * numbers.size(), bytes_ - at), cudaMemcpyHostToDevice));
  }
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  template <class Call>
  double milliseconds(int repeats, const Call& call) {
    call();  // loads and warms up
    std::vector<float> times(static_cast<size_t>(repeats));
    for (float& time : times) {
      check(cudaEventRecord(begin_));
      call();
      check(cudaEventRecord(end_));
      check(cudaEventSynchronize(end_));
      check(cudaEventElapsedTime(&time, begin_, end_));
    }
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return static_cast<double>(times[static_cast<size_t>(repeats / 2)]);
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// The line of what was fastest.
std::string tune(const Problem& problem, const GemmChip& chip, int repeats) {
  const auto strideOf = [](int64_t width) { return (width + 7) / 8 * 8; };
  const auto bytesOf = [&](int64_t rows, int64_t width, ElementFormat format) {
    return rows * strideOf(width) * (format == ElementFormat::Float32 ? 4 : 2);
  };
  const auto matrix = [&](const Buffer& buffer, int64_t width, ElementFormat format) {
    return DeviceMatrix{{buffer.data(), format}, strideOf(width)};
  };
  const auto [rows, columns, depth, turnA, turnB, format, result, accumulate] = problem;
  const int64_t widthA = turnA ? rows : depth, widthB = turnB ? depth : columns;
  Buffer a(bytesOf(turnA ? depth : rows, widthA, format)),
      b(bytesOf(turnB ? columns : depth, widthB, format)), c(bytesOf(rows, columns, result));
  for (Buffer* const buffer : {&a, &b, &c}) buffer->fill();
  const GemmProduct product{.a = matrix(a, widthA, format),
                            .b = matrix(b, widthB, format),
                            .c = matrix(c, columns, result),
                            .rows = static_cast<int32_t>(rows),
                            .columns = static_cast<int32_t>(columns),
                            .depth = static_cast<int32_t>(depth),
                            .isKMajorA = !turnA,
                            .isKMajorB = turnB,
                            .accumulate = accumulate};
  const GemmShape shape{rows, columns, depth};
  const double operations =
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  const GemmChoice chosen = Gemms(chip, {}).choose(product);
  std::vector<GemmChoice> tried;
  GemmChoice best;
  double least = 0;
  Timer timer;
  for (const GemmTile& tile : gemmTiles())
    for (const int32_t splits : kSplits) {
      GemmChoice wanted{tile.family, tile.schedule, tile.columns, tile.cluster, splits};
      if (splits == kStreamK) wanted.splits = wanted.workers = 1;
      Gemms gemms(chip, {.forced = GemmForced::parse(wordsOf(wanted)), .table = {}});
      const GemmChoice choice = gemms.choose(product);
      // Another family where operands or the chip do not allow this one, fewer splits than asked
      // for, units that nobody shares.
      if (choice.family != tile.family || choice.columns != tile.columns ||
          std::find(tried.begin(), tried.end(), choice) != tried.end())
        continue;
      tried.push_back(choice);
      const int64_t sums = Gemms::partialSumsOf(product, choice);
      if (sums > kMostPartialSums) continue;
      const Buffer partial(std::max<int64_t>(sums, 1) * 4), arrivals(Gemms::arrivalsOf(chip) * 4);
      check(cudaMemset(arrivals.data(), 0, static_cast<size_t>(Gemms::arrivalsOf(chip)) * 4));
      const GemmScratch scratch{static_cast<float*>(partial.data()),
                                static_cast<uint32_t*>(arrivals.data())};
      const double time = timer.milliseconds(
          repeats, [&] { check(gemms.enqueue(product, choice, scratch, nullptr)); });
      std::printf("  %-48s %10.4f ms %8.1f TFLOP/s, predicted %.0f cycles%s\n",
                  wordsOf(choice).c_str(), time, operations / time / 1e9,
                  predictedCycles(shape, tile, choice, chip), choice == chosen ? ", chosen" : "");
      // TF32 is for who asks for it: it is timed, and never written.
      if (choice.family == GemmFamily::Tf32 || (least > 0 && time >= least)) continue;
      least = time;
      best = choice;
    }
  return message(lineOf(keyOf(product), best), "  # ", least, " ms");
}

Options optionsOf(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--repeats" || word == "--out") {
      require(i + 1 < argc, word, " needs a value");
      const std::string value = argv[++i];
      if (word == "--out") options.out = value;
      if (word == "--repeats") options.repeats = std::atoi(value.c_str());
    } else {
      parse(word);
      options.products.push_back(word);
    }
  }
  require(options.repeats > 0, "--repeats is at least 1");
  if (options.products.empty()) options.products.assign(std::begin(kLayers), std::end(kLayers));
  return options;
}

void run(const Options& options) {
  check(cudaSetDevice(0));
  for (const auto load : {loadSimt, loadMma, loadWgmma, loadSplits}) check(load());
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  const GemmChip chip = chipOf(0);
  std::string table = message("# ", device.name, ", ", chip.processors, " multiprocessors\n");
  for (const std::string& product : options.products) {
    std::printf("%s\n", product.c_str());
    table += tune(parse(product), chip, options.repeats) + "\n";
  }
  if (options.out.empty()) {
    std::cout << table;
    return;
  }
  std::ofstream file(options.out);
  file << table << std::flush;
  require(file.good(), options.out, " cannot be written");
}

}  // namespace
}  // namespace tutti::parallel::cuda

int main(int argc, char** argv) {
  using namespace tutti::parallel::cuda;
  try {
    run(optionsOf(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tune_gemm: %s\n", error.what());
    return 1;
  }
  return 0;
}
