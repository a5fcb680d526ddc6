#pragma once

// How the ranks of a communicator find each other through PyTorch's Store: the last that comes
// makes the id. So an id is never older than the ranks that wait for it. Included by backend.cc
// alone.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstring>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "join.h"
#include "tasks.h"

namespace tutti_torch {

class StoreRendezvous {
 public:
  explicit StoreRendezvous(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  /// Joins the communicator of that name. It waits until then for the last rank; `limits.setup`
  /// counts from there.
  tutti::Communicator meet(const std::string& name, const JoinPlace& place, const Limits& limits,
                           Clock::time_point until, std::stop_token stop = {}) const {
    return join(idOf(name, place.size, until, stop), place, limits, stop);
  }

 private:
  // Each question to the Store is short: it may be on a connection that other threads need.
  static constexpr milliseconds kShortestNap{1}, kLongestNap{20};

  tutti::UniqueId idOf(const std::string& name, int size, Clock::time_point until,
                       const std::stop_token& stop) const {
    tutti::UniqueId id;
    const std::string key = name + "/id";
    if (store_->add(name + "/ranks", 1) == size) {
      id = tutti::UniqueId::create();
      std::vector<uint8_t> value(id.bytes.size());
      std::memcpy(value.data(), id.bytes.data(), value.size());
      store_->set(key, value);
      return id;
    }
    await(key, name, size, until, stop);
    const std::vector<uint8_t> value = store_->get(key);
    TORCH_CHECK(value.size() == id.bytes.size(), "tutti: the Store has ", value.size(),
                " bytes for ", key);
    std::memcpy(id.bytes.data(), value.data(), value.size());
    return id;
  }

  void await(const std::string& key, const std::string& name, int size, Clock::time_point until,
             const std::stop_token& stop) const {
    const auto begin = Clock::now();
    milliseconds nap = kShortestNap;
    while (!store_->check({key})) {
      if (stop.stop_requested()) throw tutti::Error(tutti::ErrorCode::Aborted, "set-up was ended");
      if (Clock::now() > until)
        C10_THROW_ERROR(
            DistBackendError,
            c10::str("tutti: ", store_->add(name + "/ranks", 0), " of ", size, " ranks came to ",
                     name, " within ",
                     std::chrono::duration_cast<milliseconds>(until - begin).count(), " ms"));
      std::this_thread::sleep_for(nap);
      nap = std::min(nap * 2, kLongestNap);
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace tutti_torch
