#include "parallel/store/bucket.h"

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

template <class T>
void fill(const Parameter& parameter, uint64_t seed, T* values) {
  const Random random(seed, parameter.name);
  for (int64_t i = 0; i < parameter.global.count(); ++i) {
    switch (parameter.init.kind) {
      case Init::Zero: values[i] = 0; break;
      case Init::One: values[i] = 1; break;
      case Init::Normal:
        values[i] =
            static_cast<T>(parameter.init.deviation * random.normal(static_cast<uint64_t>(i)));
        break;
    }
  }
}

}  // namespace

void fillInitial(const Parameter& parameter, uint64_t seed, const Tensor& weight) {
  switch (weight.type) {
    case DType::Float32: return fill(parameter, seed, weight.as<float>());
    case DType::Float64: return fill(parameter, seed, weight.as<double>());
    default: fail(ErrorCode::Unsupported, parameter.name, " cannot be ", toString(weight.type));
  }
}

}  // namespace tutti::parallel
