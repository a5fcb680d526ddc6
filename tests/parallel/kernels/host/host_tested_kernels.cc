// The host's kernels, and those of a dry run.

#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

template <class OfDevice>
class OnHost final : public TestedKernels {
 public:
  Kernels& kernels() override { return kernels_; }
  Tensor allocate(DType type, const Shape& shape) override { return arena_.allocate(type, shape); }
  void finish() override {}

 private:
  OfDevice kernels_;
  Arena arena_{"operands"};
};

template <class OfDevice>
std::unique_ptr<TestedKernels> make() {
  return std::make_unique<OnHost<OfDevice>>();
}

}  // namespace

std::vector<TestedDevice> testedDevices() {
  return {{"Host", make<HostKernels>}, {"Dry", make<DryKernels>, true}};
}

}  // namespace tutti::parallel
