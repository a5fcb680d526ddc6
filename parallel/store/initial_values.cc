#include "parallel/store/initial_values.h"

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

double firstValue(const Init& init, const Random& random, int64_t index) {
  switch (init.kind) {
    case Init::Zero: return 0;
    case Init::One: return 1;
    case Init::Normal: return init.deviation * random.normal(static_cast<uint64_t>(index));
  }
  return 0;
}

/// Row-major, by the index that each element has in the whole tensor.
template <class T>
void fill(const Parameter& parameter, const Random& random, const Box& box, T*& out, int dimension,
          int64_t index) {
  if (dimension == parameter.global.rank()) {
    *out++ = static_cast<T>(firstValue(parameter.init, random, index));
    return;
  }
  const Range range = box[static_cast<size_t>(dimension)];
  for (int64_t i = range.begin; i < range.end; ++i)
    fill(parameter, random, box, out, dimension + 1, index * parameter.global[dimension] + i);
}

}  // namespace

void fillInitial(const Parameter& parameter, uint64_t seed, const Box& box, const Tensor& values) {
  const Random random(seed, parameter.name);
  if (values.type == DType::Float32) {
    auto* out = values.as<float>();
    fill(parameter, random, box, out, 0, 0);
  } else if (values.type == DType::Float64) {
    auto* out = values.as<double>();
    fill(parameter, random, box, out, 0, 0);
  } else {
    fail(ErrorCode::Unsupported, parameter.name, " cannot start as ", toString(values.type));
  }
}

}  // namespace tutti::parallel
