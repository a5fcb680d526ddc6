// Goes on when a rank dies. This program starts its ranks itself, because a launcher would end all
// of them. The last rank kills itself in step 3. The others learn which rank was lost, make a
// smaller communicator, and repeat the step.

#include <tutti/tutti.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 6;

void run(tutti::Communicator communicator, int me) {
  int step = 0;
  while (step < kSteps) {
    if (step == 3 && me == kRanks - 1) raise(SIGKILL);
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

int rankMain(const tutti::UniqueId& id, int rank) {
  try {
    run(tutti::Communicator::create({.id = id, .rank = rank, .size = kRanks}), rank);
    std::fflush(stdout);
    return 0;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::toString(error.code()), error.what());
    return 1;
  }
}

}  // namespace

int main() {
  // The ranks meet at an address that all of them derive the same id from. It is free for one job
  // at a time. Fork before the process has threads, as it has once it uses a communicator.
  const auto id = tutti::UniqueId::at("127.0.0.1:" + std::to_string(20000 + getpid() % 20000));
  int started = 0;
  for (; started < kRanks; ++started) {
    const pid_t child = fork();
    if (child == 0) _exit(rankMain(id, started));
    if (child < 0) {
      std::perror("fork");  // the ranks that have started give up when their set-up times out
      break;
    }
  }
  int good = 0, killed = 0;
  for (int rank = 0; rank < started; ++rank) {
    int status = 0;
    if (wait(&status) < 0) {
      std::perror("wait");
      return 1;
    }
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    killed += WIFSIGNALED(status);
  }
  std::printf("%d ranks finished, %d was killed\n", good, killed);
  return good == kRanks - 1 ? 0 : 1;
}
