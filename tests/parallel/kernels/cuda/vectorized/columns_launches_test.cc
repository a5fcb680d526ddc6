// Slices of columns' sums are added by the last block of each tile, and by a second launch where
// there are too few counters: the same bits. The emulation counts the launches.

#include <span>
#include <string>
#include <vector>

#include "tests/emulation/runtime/launched_kernels.h"
#include "tests/parallel/kernels/cuda/vectorized/column_sums.h"
#include "tests/support/sanitized.h"

namespace tutti::parallel::cuda {
namespace {

// With too few counters these are not touched.
TEST(VectorizedColumns, OneLaunchHasTheBitsOfTwo) {
  // ThreadSanitizer takes seconds for each: of each width of tiles one.
  for (const Formats& formats : std::span(kAllFormats).first(tests::kThreadSanitized ? 2 : 5)) {
    SCOPED_TRACE(std::string(nameOf(formats.elements)) + " and " + nameOf(formats.kept));
    CallsInTurn calls(formats);
    std::vector<char> bytes[2];
    for (const int missing : {0, 1}) {
      const emulation::LaunchedKernels launched;
      bytes[missing] = calls.leave(missing);
      EXPECT_EQ(launched.of("::sumsOfSlices<").begun, 2 * 6);
      EXPECT_EQ(launched.of("::sumsOfColumns<").begun, 2 * 6 * missing);
    }
    EXPECT_TRUE(bytes[0] == bytes[1]) << "other bits";
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
