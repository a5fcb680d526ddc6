#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/gpu/memory_cases.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tensor/check.h"
#include "parallel/tensor/random.h"

namespace tutti::bench {

namespace {

constexpr int kMostEighths = 24;

/// What the GPU computes in float32 may be off by: of sums over a row of some thousands, of which
/// each thread adds few in order, and of exponentials; relatively to the largest of the results.
constexpr double kComputed = 0x1p-14;
/// Of sums over 2^14 rows, in whichever order: 2^14 roundings of 2^-24 of the sum of absolute
/// values, which is below 8 times the largest sum of columns whose rows repeat after 16.
constexpr double kSummed = 8 * 0x1p-10;

double roundingOf(DType type) { return type == DType::BFloat16 ? 0x1p-8 : 0; }

std::vector<float> contentOf(const MemoryOperand& operand, int64_t count, size_t index) {
  std::vector<float> numbers = eighths(count, kMostEighths, index + 1);
  if (operand.content == Content::Positive)
    for (float& number : numbers) number = std::abs(number) + 0.125f;
  return numbers;
}

/// Of `count` places, each once, in no order: 5 and the count have no common factor, or 3, ...
std::vector<int32_t> placesOf(int64_t count) {
  int64_t step = std::max<int64_t>(1, std::min<int64_t>(5, count - 1));
  while (std::gcd(step, count) != 1) step += 2;
  std::vector<int32_t> places(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    places[static_cast<size_t>(i)] = static_cast<int32_t>(i * step % count);
  return places;
}

/// What `all` numbers are: those of a period, and of places those behind them, again and again.
std::vector<int32_t> continued(const std::vector<int32_t>& period, int64_t all, Content content) {
  std::vector<int32_t> numbers(static_cast<size_t>(all));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = period[i % period.size()];
    if (content == Content::Places)
      numbers[i] += static_cast<int32_t>(i / period.size() * period.size());
  }
  return numbers;
}

}  // namespace

std::vector<int32_t> idsBelow(int64_t end, int64_t count) {
  const parallel::Random random(1, "ids");
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(random.below(i, static_cast<uint64_t>(end)));
  return ids;
}

MemoryRun::MemoryRun(Gpu& gpu, const MemoryCase& made, int64_t vocabulary)
    : gpu_(gpu), case_(made) {
  for (size_t i = 0; i < made.operands.size(); ++i) {
    const MemoryOperand& operand = made.operands[i];
    const Shape all = operand.shape(made.units), period = operand.shape(made.period);
    if (operand.isPinned || operand.content == Content::Zero) {
      onGpu_.push_back(operand.isPinned ? gpu.allocatePinned(operand.type, all)
                                        : gpu.zeros(operand.type, all));
      onHost_.push_back(host_.allocate(DType::Float64, period));
      std::fill_n(onHost_.back().as<double>(), period.count(), 0.0);
    } else if (operand.type == DType::Int32) {
      const int64_t end = operand.end > 0 ? operand.end : vocabulary;
      const std::vector<int32_t> ids = operand.content == Content::Places
                                           ? placesOf(period.count())
                                           : idsBelow(end, period.count());
      onGpu_.push_back(gpu.numbers(all, continued(ids, all.count(), operand.content)));
      onHost_.push_back(host_.allocate(DType::Int32, period));
      std::ranges::copy(ids, onHost_.back().as<int32_t>());
    } else {
      const std::vector<float> numbers = contentOf(operand, period.count(), i);
      onGpu_.push_back(gpu.repeated(operand.type, all, numbers));
      onHost_.push_back(host_.allocate(DType::Float64, period));
      std::ranges::copy(numbers, onHost_.back().as<double>());
    }
  }
}

double MemoryRun::call() {
  if (!case_.launch) return case_.call(gpu_.kernels(), onGpu_);
  case_.launch(onGpu_, gpu_.stream());
  return 0;
}

void MemoryRun::check() {
  parallel::HostKernels host;
  double got = call();
  if (case_.left) got = case_.left(gpu_, onGpu_);
  const double repeats = static_cast<double>(case_.units / case_.period);
  const double want = repeats * case_.call(host, onHost_);
  if (!(std::abs(got - want) <= kComputed * std::abs(want)))
    parallel::fail(ErrorCode::Internal, case_.name, ": it is ", got, " and not ", want);
  for (size_t i = 0; i < onGpu_.size(); ++i)
    if (case_.operands[i].isWritten) checkOperand(i);
}

/// Integers are exact, and sums of them.
void MemoryRun::checkNumbers(size_t index) const {
  const Tensor &gpu = onGpu_[index], &host = onHost_[index];
  const bool isSum = gpu.count() == host.count();
  const int64_t factor = isSum ? case_.units / case_.period : 1;
  const std::vector<int32_t> got = gpu_.readNumbers(gpu);
  for (int64_t i = 0; i < gpu.count(); ++i) {
    const int64_t want = factor * host.as<int32_t>()[i % host.count()];
    if (got[static_cast<size_t>(i)] != want)
      parallel::fail(ErrorCode::Internal, case_.name, ": number ", i, " of operand ", index, " is ",
                     got[static_cast<size_t>(i)], " and not ", want);
  }
}

void MemoryRun::checkOperand(size_t index) const {
  if (onGpu_[index].type == DType::Int32) return checkNumbers(index);
  const Tensor& gpu = onGpu_[index];
  const std::span host(onHost_[index].as<double>(), static_cast<size_t>(onHost_[index].count()));
  const bool isSum = static_cast<size_t>(gpu.count()) == host.size() && case_.units > case_.period;
  const double factor = isSum ? static_cast<double>(case_.units / case_.period) : 1;
  double largest = 0;
  for (const double number : host) largest = std::max(largest, std::abs(factor * number));
  const std::vector<float> got = gpu_.read(gpu);
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = factor * host[i % host.size()];
    const double bound =
        roundingOf(gpu.type) * std::abs(want) + (isSum ? kSummed : kComputed) * largest;
    if (!(std::abs(static_cast<double>(got[i]) - want) <= bound))
      parallel::fail(ErrorCode::Internal, case_.name, ": element ", i, " of operand ", index,
                     " is ", got[i], " and not ", want);
  }
}

}  // namespace tutti::bench
