#pragma once

// Ranks as threads of the test: body(communicator) runs on one thread per rank, and the first
// exception is rethrown after all have ended.

#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <tutti/communicator.h>

namespace tutti::tests {

inline void runRanks(std::vector<Communicator>& ranks,
                     const std::function<void(Communicator&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (Communicator& c : ranks)
    threads.emplace_back([&] {
      try {
        body(c);
      } catch (...) {
        // A rank that ends early must not leave the others waiting.
        c.abort();
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti::tests
