#include "bench/gpu/gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/gpu/bfloat16.h"
#include "parallel/kernels/cuda/make_cuda_kernels.h"
#include "parallel/tensor/check.h"
#include "parallel/tensor/random.h"

namespace tutti::bench {

using parallel::require;

namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) parallel::fail(ErrorCode::Cuda, cudaGetErrorString(error));
}

/// Two events of CUDA, which measure.
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
  double microseconds(cudaStream_t stream, const Call& call, int count) {
    check(cudaEventRecord(begin_, stream));
    for (int i = 0; i < count; ++i) call();
    check(cudaEventRecord(end_, stream));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return 1e3 * static_cast<double>(milliseconds) / count;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::vector<float> eighths(int64_t count, int most, uint64_t seed) {
  const parallel::Random random(seed, "eighths");
  std::vector<float> numbers(static_cast<size_t>(count));
  const auto choices = static_cast<uint64_t>(2 * most + 1);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(static_cast<int>(random.below(i, choices)) - most) / 8;
  return numbers;
}

Gpu::Gpu() {
  if (deviceCount(DeviceKind::Cuda) == 0)
    parallel::fail(ErrorCode::Unsupported, whyNoDevice(DeviceKind::Cuda));
  const Device device{DeviceKind::Cuda, 0};
  check(cudaSetDevice(device.index));
  stream_ = std::make_shared<Stream>(device);
  kernels_ = parallel::makeCudaKernels(*stream_);
}

CUstream_st* Gpu::stream() const { return StreamRef(*stream_).cuda(); }

Tensor Gpu::allocate(DType type, const Shape& shape) {
  memory_.push_back(
      allocateOn({DeviceKind::Cuda, 0}, std::max<size_t>(1, parallel::byteCount(type, shape))));
  return Tensor(memory_.back().data(), type, shape);
}

Tensor Gpu::repeated(DType type, const Shape& shape, const std::vector<float>& period) {
  if (type == DType::Float32)
    return repeatedBytes(type, shape, period.data(), period.size() * sizeof(float));
  require(type == DType::BFloat16, "numbers of ", toString(type));
  std::vector<uint16_t> bits(period.size());
  std::ranges::transform(period, bits.begin(), toBFloat16);
  return repeatedBytes(type, shape, bits.data(), bits.size() * sizeof(uint16_t));
}

Tensor Gpu::numbers(const Shape& shape, const std::vector<int32_t>& period) {
  return repeatedBytes(DType::Int32, shape, period.data(), period.size() * sizeof(int32_t));
}

Tensor Gpu::zeros(DType type, const Shape& shape) {
  const std::vector<std::byte> none(parallel::byteCount(type, shape));
  return repeatedBytes(type, shape, none.data(), none.size());
}

Tensor Gpu::allocatePinned(DType type, const Shape& shape) {
  const size_t bytes = std::max<size_t>(1, parallel::byteCount(type, shape));
  memory_.push_back(tutti::allocatePinned(bytes));
  std::memset(memory_.back().data(), 0xff, bytes);
  return Tensor(memory_.back().data(), type, shape);
}

Tensor Gpu::repeatedBytes(DType type, const Shape& shape, const void* period, size_t bytes) {
  const Tensor x = allocate(type, shape);
  auto* const to = static_cast<std::byte*>(x.data);
  size_t done = std::min(bytes, x.bytes());
  copy({.to = to, .from = period, .bytes = done});
  while (done < x.bytes()) {  // what is there is whole periods, and is doubled
    const size_t more = std::min(done, x.bytes() - done);
    copy({.to = to + done, .from = to, .bytes = more}, *stream_);
    done += more;
  }
  synchronize();
  return x;
}

void Gpu::clear() {
  synchronize();
  memory_.clear();
}

void Gpu::readBytes(const Tensor& x, void* to) {
  require(x.contiguous(), "rows of ", x, " lie apart");
  synchronize();
  copy({.to = to, .from = x.data, .bytes = x.bytes()});
}

std::vector<float> Gpu::read(const Tensor& x) {
  std::vector<float> numbers(static_cast<size_t>(x.count()));
  if (x.type == DType::Float32) {
    readBytes(x, numbers.data());
  } else if (x.type == DType::Float64) {
    std::vector<double> wide(numbers.size());
    readBytes(x, wide.data());
    std::ranges::transform(wide, numbers.begin(),
                           [](double each) { return static_cast<float>(each); });
  } else {
    require(x.type == DType::BFloat16, x, " has no numbers that are read");
    std::vector<uint16_t> bits(numbers.size());
    readBytes(x, bits.data());
    std::ranges::transform(bits, numbers.begin(), fromBFloat16);
  }
  return numbers;
}

std::vector<int32_t> Gpu::readNumbers(const Tensor& x) {
  require(x.type == DType::Int32, x, " is no array of int32");
  std::vector<int32_t> numbers(static_cast<size_t>(x.count()));
  readBytes(x, numbers.data());
  return numbers;
}

double Gpu::microseconds(const Call& call, int count) {
  return Timer().microseconds(stream(), call, count);
}

int Gpu::countFor(const Call& call) {
  call();  // loads and warms up
  const double once = microseconds(call, 1);
  return static_cast<int>(std::clamp(turnMicroseconds / std::max(once, 1.0), 1.0, 200.0));
}

std::vector<double> Gpu::inTurns(const std::vector<Call>& calls, int turns) {
  std::vector<int> counts;
  for (const Call& call : calls) counts.push_back(countFor(call));
  std::vector<std::vector<double>> times(calls.size());
  for (int turn = 0; turn < turns; ++turn)
    for (size_t i = 0; i < calls.size(); ++i) times[i].push_back(microseconds(calls[i], counts[i]));
  std::vector<double> medians;
  std::ranges::transform(times, std::back_inserter(medians), median);
  return medians;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void Ratios::add(const std::string& name, double ratio) {
  if (count_ == 0 || ratio < least_) {
    least_ = ratio;
    worst_ = name;
  }
  logarithms_ += std::log(ratio);
  ++count_;
}

std::string Ratios::describe() const {
  if (count_ == 0) return "nothing was compared";
  char text[64];
  std::snprintf(text, sizeof text, "geometric mean %.3f over %d, worst %.3f of ",
                std::exp(logarithms_ / count_), count_, least_);
  return text + worst_;
}

Budget::Budget(double seconds)
    : end_(std::chrono::steady_clock::now() +
           std::chrono::milliseconds(static_cast<int64_t>(1e3 * seconds))) {}

bool Budget::isSpent() const { return std::chrono::steady_clock::now() >= end_; }

Words::Words(int argc, char** argv, const std::vector<std::string>& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      others_.push_back(word);
      continue;
    }
    require(std::ranges::find(flags, word) != flags.end(), word, " is no flag of this program");
    require(i + 1 < argc, word, " needs a value");
    flags_.emplace_back(word, argv[++i]);
  }
}

std::string Words::text(const std::string& flag) const {
  std::string last;
  for (const auto& [name, value] : flags_)
    if (name == flag) last = value;
  return last;
}

double Words::number(const std::string& flag, double otherwise) const {
  const std::string value = text(flag);
  if (value.empty()) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  require(*end == '\0' && number > 0, flag, " ", value, " is no number above 0");
  return number;
}

int guarded(const char* name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: error: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace tutti::bench
