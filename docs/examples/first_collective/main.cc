// Every rank gives a number, and every rank gets the sum.

#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

int main() {
  try {
    // The launcher's environment says which rank this is, and where the others are.
    auto communicator = tutti::Communicator::create();

    std::vector<float> x(1000, static_cast<float>(communicator.rank() + 1));
    communicator.allReduce({.send = x, .recv = x});

    std::printf("rank %d of %d: the sum is %g\n", communicator.rank(), communicator.size(), x[0]);
    return 0;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::toString(error.code()), error.what());
    return 1;
  }
}
