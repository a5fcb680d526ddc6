#pragma once

// Puts between GPUs and waits for them, for tests of several files.

#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {

inline constexpr size_t kPutCount = 100'000;

inline void waitFor(Communicator& c, int peer, StreamRef stream = {}) {
  const AwaitedSignals one{.peer = peer};
  c.waitSignals({.signals = {&one, 1}}, stream);
}

inline PutArgs all(const Floats& values, int peer, const Window& window) {
  return {.send = values.data(), .count = kPutCount, .peer = peer, .window = &window};
}

/// Each rank puts its values to the next one, round after round, on one stream: the wait of a round
/// holds back what the next round does.
inline void passAround(Communicator& c, Stream& stream, bool direct) {
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  Floats mine(c.device(), kPutCount, 0), inbox(c.device(), kPutCount, -1);
  const Window window = c.window({inbox.data(), kPutCount});
  EXPECT_EQ(window.address(next) != nullptr, direct) << c.rank();
  EXPECT_EQ(window.address(c.rank()), inbox.data());
  for (int round = 1; round <= 3; ++round) {
    mine.put(static_cast<float>(10 * round + c.rank()));
    c.put(all(mine, next, window), stream);
    waitFor(c, before, stream);
    stream.synchronize();
    EXPECT_TRUE(inbox.are(static_cast<float>(10 * round + before))) << c.rank() << " " << round;
    c.barrier();
  }
}

}  // namespace tutti::tests
