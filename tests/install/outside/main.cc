// A program of somebody else.

#include <tutti/tutti.h>

#include <cstdio>

int main(int unused,
         char**) {  // -Wextra -Werror would refuse this: flags of ours do not reach here
  try {
    auto c = tutti::Communicator::create();
    const auto given = tutti::launchedRank();
    if (!given || given->rank != c.rank() || given->size != c.size()) return 4;
    float x = static_cast<float>(c.rank() + 1);
    c.allReduce({.send = &x, .recv = &x, .count = 1});
    std::printf("sum %g of %d ranks, %s\n", x, c.size(), tutti::toString(tutti::DataType::Float32));
    // An error crosses the border of the library as what it is.
    try {
      c.allReduce({.send = nullptr, .recv = &x, .count = 1});
    } catch (const tutti::Error& e) {
      return e.code() == tutti::ErrorCode::InvalidArgument ? 0 : 2;
    }
    return 3;
  } catch (const tutti::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
