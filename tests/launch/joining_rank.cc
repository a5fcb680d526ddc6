// A rank that joins its job and leaves: what `tutti run` starts in a test of how many it can.

#include <cstdio>

#include <tutti/tutti.h>

int main() {
  try {
    tutti::Communicator::create().barrier();
    return 0;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
