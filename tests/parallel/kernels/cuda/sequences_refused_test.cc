// Kernels that are kept and launched as graphs, and those that look at ids, where CUDA refuses a
// call: on the emulation alone.

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/emulation/runtime/failing_call.h"
#include "tests/parallel/kernels/cuda/sequences.h"

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

// What the failed call was to look at is not the next one's; and it is looked at no more when the
// call has ended, for which it waits: it may be overwritten, or freed with the kernels.
TEST_F(RefusedSequences, LookAtTheIdsOfTheNextCall) {
  const Tensor ids = make({1, 3}, DType::Int32), at = make({3}, DType::Int32), table = make({5, 8}),
               x = make({1, 3, 8});
  const auto embedding = [&](Kernels& kernels) {
    kernels.embedding({.tokenIds = ids, .tokens = table, .positions = table, .x = x, .at = at});
  };
  std::atomic<bool> hasCome = false;  // the stream, to what looks at ids
  const auto come = [](void* to) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    *static_cast<std::atomic<bool>*>(to) = true;
  };
  for (const bool keeps : {false, true}) {
    int early = 0;  // calls that ended before the stream came there
    for (int calls = 0;; ++calls) {
      ASSERT_LT(calls, 100);
      CudaKernels kernels{stream_};
      ids.as<int32_t>()[2] = 7;  // which nobody hears of where the call fails
      hasCome = false;
      ASSERT_EQ(cudaLaunchHostFunc(StreamRef(stream_).cuda(), come, &hasCome), cudaSuccess);
      {
        const emulation::FailingCall failing(calls, cudaErrorInvalidConfiguration);
        const auto outcome =
            tests::outcomeOf([&] { inSequence(kernels, keeps, [&] { embedding(kernels); }); });
        if (!failing.hasFailed()) {
          tests::expectError(outcome, ErrorCode::InvalidArgument, "id 7");
          break;
        }
        tests::expectError(outcome, ErrorCode::Cuda, "cudaErrorInvalidConfiguration");
      }
      if (!hasCome) ++early;
      stream_.synchronize();
      ids.as<int32_t>()[2] = 4;
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(tests::outcomeOf([&] { embedding(kernels); }).text, tests::Outcome{}.text)
            << calls;
      stream_.synchronize();
    }
    // Until something is launched that looks at ids: an event, a wait for it, and the launch.
    EXPECT_TRUE(keeps || early <= 3) << early;
  }
}

}  // namespace
}  // namespace tutti::parallel
