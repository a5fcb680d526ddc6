#include "parallel/nn/expert_maps.h"

namespace tutti::parallel {

Tensor ofExpert(const Tensor& stacked, int64_t expert) {
  const Shape& s = stacked.shape;
  return stacked.rows(expert, 1).view(s.rank() == 2 ? Shape{s[1]} : Shape{s[1], s[2]});
}

void multiply(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& a, const Tensor& weight,
              const Tensor& c, bool back, double beta) {
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    kernels.gemm({.a = a.rows(rows.begin, rows.count()),
                  .b = ofExpert(weight, e),
                  .c = c.rows(rows.begin, rows.count()),
                  .transposeB = !back,
                  .beta = beta});
  });
}

void addBiases(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& bias,
               const Tensor& y) {
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    kernels.addBias(ofExpert(bias, e), y.rows(rows.begin, rows.count()));
  });
}

}  // namespace tutti::parallel
