// Goes on when a rank dies: tutti run -n 4 --keep-going failure_and_shrink. The flag is needed,
// because a launcher otherwise ends all ranks when one dies. The last rank kills itself in step 3.
// The others learn which rank was lost, make a smaller communicator, and repeat the step.

#include <tutti/tutti.h>

#include <signal.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kSteps = 6;

void run(tutti::Communicator communicator) {
  const int me = communicator.rank(), last = communicator.size() - 1;
  int step = 0;
  while (step < kSteps) {
    if (step == 3 && me == last) raise(SIGKILL);
    std::vector<int> x(1000, 1);  // made again for each attempt: a failed call leaves anything
    try {
      communicator.allReduce({.send = x, .recv = x});
    } catch (const tutti::Error& error) {
      // Only a lost rank is survived here. After that, every call on this communicator fails.
      if (error.code() != tutti::ErrorCode::PeerLost) throw;
      communicator = communicator.shrink();
      std::printf("rank %d lost a rank, and is rank %d of %d now\n", me, communicator.rank(),
                  communicator.size());
      // Some survivors may have completed the call that failed for others. All go on with the first
      // step that not all have completed.
      communicator.allReduce(
          {.send = &step, .recv = &step, .count = 1, .op = tutti::ReduceOp::Min});
      continue;
    }
    if (communicator.rank() == 0) std::printf("step %d: %d ranks\n", step, x[0]);
    ++step;
  }
}

}  // namespace

int main() {
  try {
    run(tutti::Communicator::create());
    return 0;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::toString(error.code()), error.what());
    return 1;
  }
}
