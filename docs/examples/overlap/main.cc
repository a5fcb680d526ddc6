// Computes and communicates at the same time. Each rank makes buckets of numbers, as a training
// makes gradients. A stream sums the buckets that are ready while the rank makes the next one.

#include <tutti/tutti.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int kBuckets = 8;
constexpr size_t kElements = 1 << 18;

// Bucket b of a rank has rank + b in all its elements.
void compute(std::vector<float>& bucket, int rank, int number) {
  const double value = rank + number;
  for (float& element : bucket) element = static_cast<float>(std::sqrt(value * value));
}

}  // namespace

int main() {
  try {
    auto communicator = tutti::Communicator::create();
    const int rank = communicator.rank(), size = communicator.size();

    // The buckets come first: the stream, which goes first, waits for the calls that use them.
    std::vector<std::vector<float>> buckets(kBuckets, std::vector<float>(kElements));
    tutti::Stream stream;  // an ordered queue of work
    for (int b = 0; b < kBuckets; ++b) {
      compute(buckets[b], rank, b);
      // With a stream the call returns at once. The bucket must stay as it is until the stream has
      // run the call. All ranks issue their calls in the same order.
      communicator.allReduce({.send = buckets[b], .recv = buckets[b]}, stream);
    }
    stream.synchronize();  // waits for all buckets, and throws the first failure

    int right = 0;
    for (int b = 0; b < kBuckets; ++b)
      if (buckets[b].back() == static_cast<float>(size * b + size * (size - 1) / 2)) ++right;
    std::printf("rank %d of %d: %d of %d buckets have the right sum\n", rank, size, right,
                kBuckets);
    return right == kBuckets ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::toString(error.code()), error.what());
    return 1;
  }
}
