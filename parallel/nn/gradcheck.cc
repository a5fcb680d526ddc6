#include "parallel/nn/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

void fillNormal(const Tensor& x, uint64_t seed, const std::string& name, double deviation) {
  const Random random(seed, name);
  for (int64_t i = 0; i < x.count(); ++i)
    x.as<double>()[i] = deviation * random.normal(static_cast<uint64_t>(i));
}

class Checker {
 public:
  Checker(Module& module, Kernels& kernels, const GradcheckOptions& options)
      : module_(module),
        kernels_(kernels),
        options_(options),
        store_(mesh_, kernels, {}, DType::Float64),
        context_{mesh_, kernels_, store_, scratch_} {
    if (options_.input.type == DType::Float64 && options_.input.shape.rank() == 3) {
      beginTokens(context_, {options_.input.shape[0], options_.input.shape[1]}, saved_);
      options_.input = options_.input.matrix();
    }
    module.declare(store_);
    store_.initialize(options.seed);
    for (size_t p = 0; p < store_.parameterCount(); ++p)
      fillNormal(store_.weight(store_.parameter(p)), options.seed, store_.parameter(p).name,
                 options.weightScale);
  }

  GradcheckReport run() {
    const Tensor dx = analytic();
    if (options_.input.type == DType::Float64) compare("input", options_.input, dx);
    for (size_t p = 0; p < store_.parameterCount(); ++p) {
      const Parameter& parameter = store_.parameter(p);
      compare(parameter.name, store_.weight(parameter), store_.finishedGradient(parameter));
    }
    return report_;
  }

 private:
  /// Fills the store with gradients, and returns that of the input.
  Tensor analytic() {
    store_.beginStep(1);
    saved_.openUnit(0);
    const Tensor y = module_.forward(context_, options_.input, saved_);
    direction_ = keep_.allocate(DType::Float64, y.shape);
    fillNormal(direction_, options_.seed, "direction", 1);
    const Tensor dy = saved_.untilWeights.allocate(DType::Float64, y.shape);
    kernels_.copy(direction_, dy);
    const Tensor dx = module_.backward(context_, dy, saved_);
    Tensor result;
    if (dx.data != nullptr) {
      result = keep_.allocate(DType::Float64, dx.shape);
      kernels_.copy(dx, result);
    }
    // A model that has units of its own has closed them, and unit 0 with them.
    if (!saved_.work.empty()) saved_.closeUnit(context_, {});
    store_.addLoss(0, 0);
    return result;
  }

  double objective() {
    saved_.reset();
    const Tensor y = module_.forward(context_, options_.input, saved_);
    double total = 0;
    for (int64_t i = 0; i < y.count(); ++i) total += y.as<double>()[i] * direction_.as<double>()[i];
    saved_.reset();
    return total;
  }

  double difference(double& element) {
    constexpr double h = 0x1p-10;
    const double before = element;
    const auto at = [&](double offset) {
      element = before + offset;
      return objective();
    };
    const double result = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
    element = before;
    return result;
  }

  void compare(const std::string& name, const Tensor& values, const Tensor& gradient) {
    const double* g = gradient.as<double>();
    double largest = 1;
    for (int64_t i = 0; i < gradient.count(); ++i) largest = std::max(largest, std::fabs(g[i]));
    for (int64_t i = 0; i < values.count(); ++i, ++report_.elements) {
      const double error = std::fabs(difference(values.as<double>()[i]) - g[i]) / largest;
      if (std::isnan(report_.worst) || error <= report_.worst) continue;  // a NaN stays
      report_.worst = error;
      report_.where = message(name, "[", i, "]");
    }
  }

  Module& module_;
  Kernels& kernels_;
  GradcheckOptions options_;
  DeviceMesh mesh_;
  Arena scratch_{"scratch"}, keep_{"gradcheck"};
  ParameterStore store_;
  Saved saved_;
  ParallelContext context_;
  Tensor direction_;
  GradcheckReport report_;
};

}  // namespace

GradcheckReport gradcheck(Module& module, Kernels& kernels, const GradcheckOptions& options) {
  return Checker(module, kernels, options).run();
}

}  // namespace tutti::parallel
