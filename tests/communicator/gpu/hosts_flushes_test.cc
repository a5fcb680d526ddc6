// Long messages to GPUs of other hosts: whether they pass through the host, as ranks say and as the
// emulation sees.

#include <gtest/gtest.h>

#include "src/base/env.h"
#include "tests/communicator/gpu/hosts.h"
#include "tests/emulation/runtime/device.h"

namespace tutti::tests {
namespace {

class GpuHostFlushes : public CudaTest {};

// Several slices, of several rounds. Long messages go from GPU to GPU where they are asked for, and
// here not without.
TEST_F(GpuHostFlushes, OfManyBytes) {
  constexpr size_t kMany = 1 << 20;
  const uint64_t flushes = emulation::deviceAt(2).flushes;
  const bool isDirect = base::env().gpuDirect.value_or(false);
  Ways ways;
  Setting s(makeRanksOn({0, 0, 1}), kMany);
  EXPECT_EQ(ways.count(isDirect ? 1 : 0, 1), 2);
  EXPECT_EQ(ways.count(isDirect ? 2 : 0, 2), 1);
  for (int r = 0; r < 3; ++r) s.ranks[r].allReduce(s.args(r, kMany), s.streams[r]);
  for (int r = 0; r < 3; ++r) s.streams[r].synchronize();
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(s.values[r].are(6)) << r;
  EXPECT_EQ(emulation::deviceAt(2).flushes > flushes, isDirect);
}

}  // namespace
}  // namespace tutti::tests
