#pragma once

// What flush() promises, for tests of transports whose endpoints send by themselves.

#include <chrono>
#include <thread>

#include "tests/transports/endpoints.h"

namespace tutti::tests {

/// `slots` messages from rank 0 to rank 1, which are connected by rings of so many slots. Nobody
/// calls progress() of the sender again, nor of the receiver until all is there.
inline void arriveWithoutTheSender(const Endpoints& all, uint32_t slots, uint32_t bytes) {
  transports::SendRing& send = all[0]->sendRing(1, 0);
  transports::ReceiveRing& receive = all[1]->receiveRing(0, 0);
  for (uint32_t i = 0; i < slots; ++i) publish(send, bytes, i);
  EXPECT_FALSE(send.ready());
  all[0]->flush();
  for (uint32_t i = 0; i < slots; ++i) {
    ASSERT_TRUE(eventually([&] { return receive.ready(); }))
        << i << " of " << slots << " messages of " << bytes << " bytes";
    ASSERT_TRUE(holds(receive, bytes, i));
    receive.release();
  }
  all[1]->flush();
  EXPECT_TRUE(eventually([&] { return send.inFlight() == 0; })) << send.inFlight();
}

/// What was published after a flush() is not sent by it.
inline void isNeededForEachMessage(const Endpoints& all) {
  transports::ReceiveRing& receive = all[1]->receiveRing(0, 0);
  publish(all[0]->sendRing(1, 0), 100, 1);
  all[0]->flush();
  publish(all[0]->sendRing(1, 0), 100, 2);
  ASSERT_TRUE(eventually([&] { return receive.ready(); }));
  receive.release();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(receive.ready());
  all[0]->flush();
  EXPECT_TRUE(eventually([&] { return receive.ready(); }));
}

}  // namespace tutti::tests
