#pragma once

// What looks rows up: embeddings, their gradients, and the loss. A block has a row. Ids, labels and
// positions that are not there count as elsewhere: findOutside() tells the host, which refuses the
// call.
//
// Gradients of embeddings are sums over the tokens of one id (or position), in the order of tokens,
// whichever that is: each token finds the next one of its id, and a block that begins with the
// first of them follows these links.
//
// Bound: the memory's bandwidth; of the links a loop over the ids, from the second-level cache,
// which is the square of tokens where ids are rare; vectorized/sums_device.cuh sorts instead.
// Statistics read logits twice, and the gradient reads them and writes them; vectorized/ has
// kernels that read them once.

#include "parallel/kernels/cuda/loss_device.cuh"
#include "parallel/kernels/cuda/placed_rows_device.cuh"

namespace tutti::parallel::cuda {

/// One block, which the host waits for: small, so that it finds room beside a kernel that fills the
/// GPU, and each thread has many values under way.
inline constexpr int kCheckThreads = 256;
__global__ inline void __launch_bounds__(kCheckThreads)
    findOutside(const __grid_constant__ FindOutside x) {
  constexpr int kAhead = 16;
  const int64_t threads = blockDim.x;
  int64_t first = x.count;
  for (int64_t i = threadIdx.x; i < x.count && first == x.count; i += kAhead * threads) {
    int32_t values[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * threads < x.count) values[k] = x.values[i + k * threads];
#pragma unroll
    for (int k = kAhead - 1; k >= 0; --k) {
      const bool isOutside = values[k] < x.lowest || values[k] >= x.end;
      if (i + k * threads < x.count && isOutside) first = i + k * threads;
    }
  }
  first = joinBlock<Smallest>(first);
  if (threadIdx.x != 0) return;
  x.found->index = first < x.count ? first : -1;
  x.found->value = first < x.count ? x.values[first] : 0;
}

template <class T>
__global__ void embedding(const __grid_constant__ Embedding x) {
  const int32_t token = int32_t(blockIdx.x), t = token % x.context;
  const int64_t row = rowIn(x.part, x.tokenIds[token]);
  const int64_t position = x.at == nullptr ? t : x.at[t];
  const bool learned = x.positions.data != nullptr && position >= 0 && position < x.positionRows;
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x)) {
    T sum = row < 0 ? T(0) : load<T>(x.tokens, row * x.width + column);
    if (learned) sum = sum + load<T>(x.positions, position * x.width + column);
    store<T>(x.x, int64_t(token) * x.width + column, sum);
  }
}

__global__ inline void findRows(const __grid_constant__ SumByRow x) {
  const int64_t i = firstElement();
  if (i >= x.count) return;
  const int32_t t = int32_t(i) % x.context;
  const int64_t id = x.tokenIds != nullptr ? x.tokenIds[i] : x.at != nullptr ? x.at[t] : t;
  x.rowOf[i] = rowIn(x.part, id);
  x.hasPrevious[i] = 0;
}

/// next[i] is the first token after i with the row of i, which no other token links to.
__global__ inline void linkRows(const __grid_constant__ SumByRow x) {
  const int64_t i = firstElement();
  if (i >= x.count) return;
  int32_t next = int32_t(i) + 1;
  while (next < x.count && x.rowOf[next] != x.rowOf[i]) ++next;
  x.next[i] = next < x.count ? next : -1;
  if (next < x.count) x.hasPrevious[next] = 1;
}

template <class T>
__global__ void sumByRow(const __grid_constant__ SumByRow x) {
  const int32_t token = int32_t(blockIdx.x);
  if (x.rowOf[token] < 0 || x.hasPrevious[token] != 0) return;
  const int64_t first = int64_t(x.rowOf[token]) * x.width;
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x)) {
    T sum = x.accumulate != 0 ? load<T>(x.to, first + column) : T(0);
    for (int32_t i = token; i >= 0; i = x.next[i])
      sum += load<T>(x.dx, int64_t(i) * x.width + column);
    store<T>(x.to, first + column, sum);
  }
}

template <class T>
struct RowSoftmax {
  T largest, sum;
};
/// Of a row, for all threads of its block.
template <class T, class Call>
TUTTI_DEVICE RowSoftmax<T> softmaxOf(const Call& x, int64_t row) {
  const int64_t first = row * x.stride;
  T largest = lowestLogit(T(0));
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x))
    largest = Largest::join(largest, load<T>(x.logits, first + column));
  largest = joinBlock<Largest>(largest);
  T sum = 0;
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x))
    sum += exponential(load<T>(x.logits, first + column) - largest);
  return {largest, joinBlock<Sum>(sum)};
}

template <class T>
__global__ void logitStatistics(const __grid_constant__ LogitStatistics x) {
  const int64_t row = blockIdx.x;
  const RowSoftmax<T> own = softmaxOf<T>(x, row);
  if (threadIdx.x == 0) storeStatistics<T>(x, row, own.largest, own.sum, chosenLogit<T>(x, row));
}

template <class T>
__global__ void crossEntropy(const __grid_constant__ CrossEntropy x) {
  TUTTI_SHARED(JoinedStatistics, shared, );
  const int64_t row = blockIdx.x, first = row * x.stride;
  const bool counts = x.labels[row] >= 0, isWhole = x.statistics.data == nullptr;
  RowSoftmax<T> own{};
  if (counts && isWhole) own = softmaxOf<T>(x, row);
  if (threadIdx.x == 0) {
    JoinedStatistics joined = ofNoLoss();
    if (counts)
      joined = isWhole ? JoinedStatistics{own.largest, own.sum, chosenLogit<T>(x, row)}
                       : joinedStatistics<T>(x, row);
    storeLoss(x, row, joined);
    shared = joined;
  }
  __syncthreads();
  if (x.gradient == 0) return;
  const int32_t label = rowIn(x.part, x.labels[row]);
  const LogitSlopes<T> slopes(shared, x.scale);
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x)) {
    T slope = 0;
    if (counts) slope = slopes.of(load<T>(x.logits, first + column));
    if (counts && column == label) slope -= slopes.scale;
    store<T>(x.logits, first + column, slope);
  }
}

}  // namespace tutti::parallel::cuda
