// Kernels that are kept and launched as graphs, where CUDA refuses a call: on the emulation alone.

#include "tests/emulation/runtime/failing_call.h"
#include "tests/parallel/cuda/sequences.h"

namespace tutti::parallel {
namespace {

class RefusedSequences : public SequencesWithoutKernels {};

// Whichever call it is that CUDA refuses: those of the launches, or of what makes a graph.
TEST_F(RefusedSequences, SayWhatCudaRefuses) {
  const Chain c = chain();
  fill(c.x, 1);
  fill(c.weight, 2);
  for (int time = 0; time < 2; ++time)  // one by one, then as a graph
    for (int calls = 0;; ++calls) {
      ASSERT_LT(calls, 100);
      CudaKernels kernels{stream_};
      const emulation::FailingCall failing(calls, cudaErrorInvalidConfiguration);
      const auto outcome = tests::outcomeOf([&] {
        for (int each = 0; each <= time; ++each)
          inSequence(kernels, true, [&] { call(kernels, c); });
        EXPECT_EQ(kernels.graphLaunches(), time);
      });
      if (!failing.hasFailed()) {
        EXPECT_EQ(outcome.text, tests::Outcome{}.text);
        break;
      }
      tests::expectError(outcome, ErrorCode::Cuda, "cudaErrorInvalidConfiguration");
    }
  const Chain again = chain();
  fill(again.x, 1);
  fill(again.weight, 2);
  CudaKernels kernels{stream_};
  call(kernels, again);
  EXPECT_EQ(values(again.copied), values(c.copied));
}

}  // namespace
}  // namespace tutti::parallel
