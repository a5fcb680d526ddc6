// Sums of numbers that are rounded have one order, whoever comes first: the same bits in every run.

#include <cuda_runtime_api.h>

#include "src/device/cuda.h"
#include "tests/parallel/kernels/cuda/bits.h"
#include "tests/parallel/kernels/cuda/gemm/tiles.h"

namespace tutti::parallel::cuda {
namespace {

/// Products of each kernel, most of whose sums two blocks and more have parts of.
std::vector<ProductCase> cases() {
  std::vector<ProductCase> all;
  for (const TestedTile& tile : kTiles) {
    const ElementFormat in = typesOf(tile)[0];
    for (const int splits : {1, 3})
      all.push_back({.rows = 260,
                     .columns = 300,
                     .depth = 320,
                     .in = in,
                     .accumulate = true,
                     .forced = inSplits(tile, splits)});
    all.push_back({.rows = 130,
                   .columns = 140,
                   .depth = 200,
                   .in = in,
                   .accumulate = true,
                   .epilogue = {.activation = Activation::SwiGluBackward,
                                .bias = true,
                                .residual = true,
                                .scale = 0x1p-6},
                   .forced = inSplits(tile, 2)});
    if (isWgmma(tile)) all.push_back(vectorizedCase(tile, {1, 1, 9}));
  }
  for (ProductCase& each : all) each.anyNumbers = true;
  return all;
}

/// Work beside a product, on a stream of its own.
class Neighbour {
 public:
  Neighbour() { emulation::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Neighbour() { cudaStreamDestroy(stream_); }
  void begin() {
    for (int i = 0; i < 4; ++i)
      emulation::check(cudaMemsetAsync(memory_.get(), i, memory_.size(), stream_));
  }

 private:
  emulation::DeviceArray<char> memory_{size_t{1} << (device::cudaSupport().emulated ? 12 : 26)};
  cudaStream_t stream_ = nullptr;
};

// On a GPU some thousand runs by all kernels, which are to leave the other tests their time.
TEST(GemmBits, AreTheSameAgain) {
  const int runs = device::cudaSupport().emulated ? 4 : 100;
  Neighbour neighbour;
  for (const ProductCase& each : cases()) {
    Product product(each);
    std::vector<char> first;
    for (int run = 0; run < runs; ++run) {
      neighbour.begin();
      product.run();
      if (run == 0) first = product.bytes();
      ASSERT_TRUE(product.bytes() == first) << each.describe() << ", run " << run;
    }
    Bits bits;
    bits.add(first);
    bits.say();
  }
}

// With eight multiprocessors also clusters of two blocks are four that share a unit: of two sums
// any order is the same.
TEST(GemmBits, AreThoseOfEveryOrder) {
  expectTheSameBitsInEveryOrder("GemmBits.AreTheSameAgain", static_cast<int>(cases().size()),
                                "TUTTI_EMULATION_PROCESSORS=8");
}

}  // namespace
}  // namespace tutti::parallel::cuda
