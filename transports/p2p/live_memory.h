#pragma once

// What an address of p2p names in the process that it comes from: whether that is this one, and the
// memory itself.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>

namespace tutti::transports::p2p {

/// Different from that of a process of another container, which may have the same number.
inline uint64_t processToken() {
  static const uint64_t token = [] {
    std::random_device random;
    return static_cast<uint64_t>(random()) << 32 | random();
  }();
  return token;
}

/// The memory of this process's endpoints, by its address: what an address names must be there.
template <class Memory>
class LiveMemory {
 public:
  void add(const std::shared_ptr<Memory>& memory) {
    const std::lock_guard lock(mutex_);
    all_[reinterpret_cast<uint64_t>(memory->data())] = memory;
  }
  void remove(const unsigned char* start) {
    const std::lock_guard lock(mutex_);
    all_.erase(reinterpret_cast<uint64_t>(start));
  }
  std::shared_ptr<Memory> find(uint64_t start) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(start);
    return found == all_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Memory>> all_;
};

}  // namespace tutti::transports::p2p
