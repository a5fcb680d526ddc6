#pragma once

// Dispatcher: the listeners of one rank. Any thread posts events; the monitor's thread delivers
// them, in the order in which they were posted, to the listener of their channel. Both kinds of
// control plane are built on it.
//
// An event for a channel that nobody has listened on yet is kept. listen() posts an event too: when
// its turn comes, the listener is told what it missed, in order, and is current from then on.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {

class Dispatcher {
 public:
  struct Hooks {
    /// Something was posted: make the monitor's thread call deliver(). Any thread.
    std::function<void()> wake;
    /// `peer` has sent more to channels that nobody listens on than may be kept. Monitor's thread.
    std::function<void(int peer, const std::string& how)> overflow;
  };
  explicit Dispatcher(Hooks hooks) : hooks_(std::move(hooks)) {}

  // From any thread.
  void listen(uint64_t channel, ControlListener* listener);
  void ignore(uint64_t channel);
  void postMessage(int from, ControlMessage message);
  void postLost(int peer, std::string how);
  void postLeft(int peer);
  /// After it returns no listener is called any more; what is posted is dropped. From inside a
  /// callback it returns at once, and that callback is the last one.
  void close();

  // From the monitor's thread.
  void deliver();
  void tick();

  /// Most bytes of one peer's messages that wait for a listener.
  static constexpr size_t kMaxKeptBytes = size_t{64} << 20;
  /// What a descriptor that waits counts as: no more than 1,024 of one peer can.
  static constexpr size_t kDescriptorCost = size_t{64} << 10;
  /// So many ignored channels are remembered, the latest: what arrives for an earlier one is kept
  /// as for a channel that nobody has listened on yet.
  static constexpr size_t kMaxClosedChannels = 4096;

 private:
  enum class Kind { Message, Lost, Left, Listen };
  struct Event {
    Kind kind = Kind::Message;
    int peer = -1;
    ControlMessage message;   // Message; Listen: only its channel
    std::string how;          // Lost
    uint64_t generation = 0;  // Listen: which listen() call
    uint64_t order = 0;       // its place among all events of this rank
  };
  struct Channel {
    ControlListener* listener = nullptr;
    uint64_t generation = 0;  // of the last listen()
    bool current = false;     // has been told what it missed
    bool closed = false;      // ignored: messages are dropped
    uint64_t closing = 0;     // which ignore() call
    std::vector<Event> kept;
  };

  void post(Event event);
  std::optional<Event> next();
  void handle(Event event);
  void handleMessage(Event event);
  void handleGone(Event event);
  void handleListen(const Event& event);
  bool keep(Channel& channel, Event event);
  static size_t costOf(const Event& event);
  std::vector<Event> takeKept(Channel& channel);
  void forgetOldest();
  void report(uint64_t channel, const Event& gone);
  void call(uint64_t channel, const std::function<void(ControlListener&)>& callback);
  std::vector<uint64_t> currentChannels();

  const Hooks hooks_;
  std::mutex mutex_;
  std::condition_variable idle_;  // no callback is running
  bool closed_ = false;
  std::deque<Event> inbox_;
  std::map<uint64_t, Channel> channels_;
  uint64_t generations_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> closings_;  // channel and ignore() call, oldest first
  uint64_t lastClosing_ = 0;
  bool calling_ = false;
  uint64_t callingChannel_ = 0;
  std::thread::id caller_;
  std::map<int, size_t> keptBytes_;  // by peer
  // Only the monitor's thread touches these.
  uint64_t order_ = 0;
  std::vector<Event> gone_;
};

}  // namespace tutti::bootstrap
