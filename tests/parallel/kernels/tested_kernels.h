#pragma once

// The kernels that a test is about, and memory for their operands: a test of all devices is written
// once, and linked into a program of the host's kernels and into one of the GPU's.

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

class TestedKernels {
 public:
  virtual ~TestedKernels() = default;
  virtual Kernels& kernels() = 0;
  /// Not initialized, and there for as long as this: the test and the kernels address it.
  virtual Tensor allocate(DType type, const Shape& shape) = 0;
  /// Returns when what was called is done.
  virtual void finish() = 0;
};

struct TestedDevice {
  std::string name;
  std::unique_ptr<TestedKernels> (*make)();
  bool dry = false;  ///< computes nothing
};
inline std::ostream& operator<<(std::ostream& out, const TestedDevice& device) {
  return out << device.name;
}

/// Those of this program.
std::vector<TestedDevice> testedDevices();
/// Of these the ones that compute.
inline std::vector<TestedDevice> computingDevices() {
  std::vector<TestedDevice> devices = testedDevices();
  std::erase_if(devices, [](const TestedDevice& device) { return device.dry; });
  return devices;
}

}  // namespace tutti::parallel
