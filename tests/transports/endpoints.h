#pragma once

// Endpoints of one process, and messages on their rings, for tests of several transports.

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/transports/fabric.h"

namespace tutti::tests {

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

inline void publish(transports::SendRing& ring, uint32_t bytes, uint64_t key) {
  std::memset(ring.payload(bytes), static_cast<int>(key % 251), bytes);
  ring.publish(static_cast<uint32_t>(key), 1, bytes);
}

inline bool holds(const transports::ReceiveRing& ring, uint32_t bytes, uint64_t key) {
  const auto* payload = reinterpret_cast<const unsigned char*>(ring.payload());
  return ring.slot()->bytes == bytes && ring.slot()->callHash == key &&
         std::all_of(payload, payload + bytes, [&](unsigned char c) { return c == key % 251; });
}

// Until `condition`, or for a long time; progress() of all.
inline bool progressUntil(const Endpoints& all, const std::function<bool()>& condition) {
  const auto deadline = base::Deadline::after(kPatience);
  while (!condition()) {
    for (const auto& endpoint : all)
      if (endpoint) endpoint->progress();
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

inline void cancelZeroCopy(Endpoint& endpoint) {
  const auto deadline = base::Deadline::after(kPatience);
  while (!endpoint.cancelZeroCopy()) {
    ASSERT_FALSE(deadline.passed());
    std::this_thread::yield();
  }
}

}  // namespace tutti::tests
