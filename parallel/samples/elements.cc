#include "parallel/samples/elements.h"

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

void requireWide(const Tensor& x) {
  require(x.type == DType::Float32 || x.type == DType::Float64, x, " has other elements");
}

}  // namespace

std::vector<double> elementsOf(const DeviceMesh& mesh, const Tensor& x) {
  requireWide(x);
  const auto count = static_cast<size_t>(x.count());
  if (x.type == DType::Float64) {
    std::vector<double> elements(count);
    mesh.download(x, elements.data());
    return elements;
  }
  std::vector<float> narrow(count);
  mesh.download(x, narrow.data());
  return {narrow.begin(), narrow.end()};
}

void setElements(const DeviceMesh& mesh, const Tensor& x, const std::vector<double>& elements) {
  requireWide(x);
  ensure(std::ssize(elements) == x.count(), elements.size(), " elements for ", x);
  if (x.type == DType::Float64) return mesh.upload(elements.data(), x);
  const std::vector<float> narrow(elements.begin(), elements.end());
  mesh.upload(narrow.data(), x);
}

}  // namespace tutti::parallel
