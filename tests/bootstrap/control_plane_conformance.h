#pragma once

// What every ControlPlane must do, whatever carries its messages. A kind of control plane makes
// itself known by a ControlPlaneKind, and INSTANTIATE_TEST_SUITE_P runs the suite on it.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {

struct ControlPlaneKind {
  std::string name;
  std::vector<std::shared_ptr<ControlPlane>> (*make)(int size);
};

class ControlPlaneConformance : public testing::TestWithParam<ControlPlaneKind> {
 protected:
  std::vector<std::shared_ptr<ControlPlane>> make(int size) { return GetParam().make(size); }
};

}  // namespace tutti::bootstrap
