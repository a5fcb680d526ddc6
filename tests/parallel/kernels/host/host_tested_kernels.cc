// The host's kernels, as this processor has them and as every one does, and those of a dry run.

#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/blas.h"
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

/// Without instructions that not every processor has.
class PortableKernels final : public HostKernels {
 public:
  PortableKernels() : HostKernels(host::baselineElementwise(), false) {}
};

/// With products of bfloat16 by instructions for them, whether that is faster or not.
class BrainKernels final : public HostKernels {
 public:
  BrainKernels() : HostKernels(*host::availableElementwise().sets[0], true) {}
};

template <class OfDevice>
std::unique_ptr<TestedKernels> make() {
  return std::make_unique<OnHost<OfDevice>>();
}

}  // namespace

std::vector<TestedDevice> testedDevices() {
  std::vector<TestedDevice> devices{{"Host", make<HostKernels>},
                                    {"HostPortable", make<PortableKernels>},
                                    {"Dry", make<DryKernels>, true}};
  if (host::multipliesBrain()) devices.push_back({"HostBrain", make<BrainKernels>});
  return devices;
}

}  // namespace tutti::parallel
