#pragma once

// What every transport must do. A transport's test instantiates this suite with its fabrics:
//
//   INSTANTIATE_TEST_SUITE_P(Shm, TransportTest, ::testing::Values(shmThreads, shmProcesses),
//                            fabricName);

#include <gtest/gtest.h>

#include "tests/transports/fabric.h"

namespace tutti::tests {

class TransportTest : public ::testing::TestWithParam<FabricFactory> {
 protected:
  TransportTest();
  /// Runs and expects that nothing went wrong.
  void run(const Scenario& scenario);
  std::unique_ptr<Fabric> fabric_;
};

inline std::string fabricName(const ::testing::TestParamInfo<FabricFactory>& info) {
  return info.param()->name();
}

}  // namespace tutti::tests
