#pragma once

// Workers of UCX, and endpoints on them, for tests of several files.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/transports/ucx/fabrics.h"
#include "transports/ucx/endpoint.h"
#include "transports/ucx/worker.h"

namespace tutti::tests {

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;
using Workers = std::vector<std::shared_ptr<transports::ucx::Worker>>;

inline Workers makeWorkers(int count, const transports::ucx::WorkerOptions& options = overTcp()) {
  Workers workers;
  for (int i = 0; i < count; ++i) workers.push_back(transports::ucx::makeWorker(options));
  return workers;
}

inline Endpoints makeEndpoints(const Workers& workers, const transports::RingLayout& layout) {
  Endpoints all;
  for (size_t r = 0; r < workers.size(); ++r)
    all.push_back(transports::ucx::makeUcxEndpoint(workers[r], static_cast<int>(r),
                                                   static_cast<int>(workers.size()), layout));
  return all;
}

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

/// A variable, for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace tutti::tests
