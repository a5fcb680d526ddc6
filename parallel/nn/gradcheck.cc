#include "parallel/nn/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

using Elements = std::vector<double>;

Elements elementsOf(const DeviceMesh& mesh, const Tensor& x) {
  Elements elements(static_cast<size_t>(x.count()));
  mesh.download(x, elements.data());
  return elements;
}

Elements fillNormal(const DeviceMesh& mesh, const Tensor& x, uint64_t seed, const std::string& name,
                    double deviation) {
  const Random random(seed, name);
  Elements elements(static_cast<size_t>(x.count()));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = deviation * random.normal(i);
  mesh.upload(elements.data(), x);
  return elements;
}

class Checker {
 public:
  Checker(DeviceMesh& mesh, Kernels& kernels, Module& module, const GradcheckOptions& options)
      : mesh_(mesh),
        kernels_(kernels),
        module_(module),
        options_(options),
        scratch_("scratch", mesh.backing()),
        keep_("gradcheck", mesh.backing()),
        store_(mesh, kernels, {}, DType::Float64),
        stash_(mesh.backing()),
        context_{mesh_, kernels_, store_, scratch_},
        input_(mesh.onDevice(options.input, keep_)) {
    if (input_.type == DType::Float64 && input_.shape.rank() == 3) {
      beginTokens(context_, {input_.shape[0], input_.shape[1]}, stash_);
      input_ = input_.matrix();
    }
    module.declare(store_);
    store_.initialize(options.seed);
    for (size_t p = 0; p < store_.parameterCount(); ++p)
      fillNormal(mesh_, store_.weight(store_.parameter(p)), options.seed, store_.parameter(p).name,
                 options.weightScale);
  }

  GradcheckReport run() {
    const Tensor dx = analytic();
    if (input_.type == DType::Float64) compare("input", input_, dx);
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
    stash_.openUnit(0);
    const Tensor y = module_.forward(context_, input_, stash_);
    const Tensor dy = stash_.untilWeights.allocate(DType::Float64, y.shape);
    direction_ = fillNormal(mesh_, dy, options_.seed, "direction", 1);
    const Tensor dx = module_.backward(context_, dy, stash_);
    Tensor result;
    if (dx.data != nullptr) {
      result = keep_.allocate(DType::Float64, dx.shape);
      kernels_.copy(dx, result);
    }
    // A model that has units of its own has closed them, and unit 0 with them.
    if (!stash_.work.empty()) stash_.closeUnit(context_, {});
    store_.addLoss(0, 0);
    return result;
  }

  double objective() {
    stash_.reset();
    const Elements y = elementsOf(mesh_, module_.forward(context_, input_, stash_));
    stash_.reset();
    return std::inner_product(y.begin(), y.end(), direction_.begin(), 0.0);
  }

  /// By an element of `values`, which is `before`.
  double difference(const Tensor& values, int64_t i, double before) {
    constexpr double h = 0x1p-10;
    const Tensor element = values.view({values.count()}).part(0, i, 1);
    const auto at = [&](double offset) {
      const double moved = before + offset;
      mesh_.upload(&moved, element);
      return objective();
    };
    const double result = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
    mesh_.upload(&before, element);
    return result;
  }

  void compare(const std::string& name, const Tensor& values, const Tensor& gradient) {
    const Elements said = elementsOf(mesh_, gradient), before = elementsOf(mesh_, values);
    double largest = 1;
    for (const double each : said) largest = std::max(largest, std::fabs(each));
    for (size_t i = 0; i < before.size(); ++i, ++report_.elements) {
      const double found = difference(values, static_cast<int64_t>(i), before[i]);
      const double error = std::fabs(found - said[i]) / largest;
      if (std::isnan(report_.worst) || error <= report_.worst) continue;  // a NaN stays
      report_.worst = error;
      report_.where = message(name, "[", i, "]");
    }
  }

  DeviceMesh& mesh_;
  Kernels& kernels_;
  Module& module_;
  const GradcheckOptions options_;
  Arena scratch_, keep_;
  ParameterStore store_;
  ActivationStash stash_;
  ParallelContext context_;
  Tensor input_;        // where the module is
  Elements direction_;  // dy
  GradcheckReport report_;
};

}  // namespace

GradcheckReport gradcheck(DeviceMesh& mesh, Kernels& kernels, Module& module,
                          const GradcheckOptions& options) {
  return Checker(mesh, kernels, module, options).run();
}

}  // namespace tutti::parallel
