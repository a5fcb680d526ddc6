#pragma once

// RecordingListener: what one rank was told on one channel, as lines of text that a test waits for.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "src/bootstrap/control_plane.h"
#include "tests/support/leftovers.h"

namespace tutti::bootstrap {

using tests::kPatience;

class RecordingListener final : public ControlListener {
 public:
  void onMessage(int from, ControlMessage message) override {
    std::string text(reinterpret_cast<const char*>(message.payload.data()), message.payload.size());
    const std::string line = base::message("message ", from, " ", message.type, " ", text);
    {
      std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    }
    add(line);
  }
  void onPeerLost(int peer, const std::string& how) override {
    add(base::message("lost ", peer, " ", how));
  }
  void onPeerLeft(int peer) override { add(base::message("left ", peer)); }
  void onTick() override {
    std::lock_guard lock(mutex_);
    ++ticks_;
    changed_.notify_all();
  }

  /// Waits until `count` events have come, and returns all; fewer when patience ends.
  std::vector<std::string> wait(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return events_.size() >= count; });
    return events_;
  }
  bool waitTicks(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return ticks_ >= count; });
  }
  std::vector<std::string> events() {
    std::lock_guard lock(mutex_);
    return events_;
  }
  /// Waits for `count` messages, whatever else comes, and returns how many came.
  size_t waitMessages(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return messages_.size() >= count; });
    return messages_.size();
  }
  /// The messages themselves, with their descriptors.
  std::vector<ControlMessage> takeMessages(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return messages_.size() >= count; });
    return std::exchange(messages_, {});
  }

 private:
  void add(std::string line) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  std::vector<ControlMessage> messages_;
  int ticks_ = 0;
};

inline ControlMessage makeMessage(uint64_t channel, uint32_t type, const std::string& text) {
  ControlMessage message{.channel = channel, .type = type};
  const auto bytes = std::as_bytes(std::span(text));
  message.payload.assign(bytes.begin(), bytes.end());
  return message;
}

/// Everybody sends to everybody, and says what it heard.
inline std::string greet(ControlPlane& plane) {
  RecordingListener listener;
  plane.listen(1, &listener);
  for (int to = 0; to < plane.size(); ++to)
    plane.send(to, makeMessage(1, static_cast<uint32_t>(plane.rank()), "hello"));
  const size_t heard = listener.waitMessages(static_cast<size_t>(plane.size()));
  plane.leave();
  plane.ignore(1);
  return base::message("heard ", heard);
}

}  // namespace tutti::bootstrap
