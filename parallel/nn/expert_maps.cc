#include "parallel/nn/expert_maps.h"

namespace tutti::parallel {

Tensor ofExpert(const Tensor& stacked, int64_t expert) {
  const Shape& s = stacked.shape;
  return stacked.rows(expert, 1).view(s.rank() == 2 ? Shape{s[1]} : Shape{s[1], s[2]});
}

void multiply(Kernels& kernels, const ExpertTraffic& traffic, const ExpertProduct& product) {
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    const auto own = [&](const Tensor& x) {
      return x.data == nullptr ? x : x.rows(rows.begin, rows.count());
    };
    GemmEpilogue epilogue = product.epilogue;
    epilogue.inner = own(epilogue.inner);
    if (epilogue.bias.data != nullptr) epilogue.bias = ofExpert(epilogue.bias, e);
    kernels.gemm({.a = own(product.a),
                  .b = ofExpert(product.weight, e),
                  .c = own(product.c),
                  .transposeB = !product.back,
                  .beta = product.beta,
                  .epilogue = epilogue});
  });
}

}  // namespace tutti::parallel
