#include "parallel/kernels/norm_slices.h"

#include <algorithm>
#include <array>

#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

namespace {

constexpr uintptr_t kWordBytes = 16;

/// Also one that is left out.
bool isForWords(const Tensor& x) {
  return (isNarrow(x.type) || x.type == DType::Float32) &&
         reinterpret_cast<uintptr_t>(x.data) % kWordBytes == 0;
}

}  // namespace

int64_t normSlicesOf(const NormSlicesArgs& args) {
  const std::array operands{args.dy, args.x, args.weight, args.residual, args.dx};
  const int64_t width = args.x.shape[-1];
  if (width == 0 || width % kNormRun != 0 || width > kMostNormColumns ||
      !std::all_of(operands.begin(), operands.end(), isForWords))
    return 0;
  return normSlicesOf(args.x.count() / width).count;
}

}  // namespace tutti::parallel
