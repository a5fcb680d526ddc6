#include "src/bootstrap/dispatcher.h"

#include "src/base/at_exit.h"
#include "src/base/log.h"

namespace tutti::bootstrap {

void Dispatcher::listen(uint64_t channel, ControlListener* listener) {
  TUTTI_REQUIRE(listener, "the listener of channel ", channel, " is null");
  Event event{.kind = Kind::Listen};
  event.message.channel = channel;
  {
    std::lock_guard lock(mutex_);
    Channel& entry = channels_[channel];
    if (entry.listener)
      base::fail(ErrorCode::InvalidUsage, "channel ", channel, " has a listener already");
    entry.listener = listener;
    entry.generation = event.generation = ++generations_;
    entry.current = entry.closed = false;
  }
  post(std::move(event));
}

void Dispatcher::ignore(uint64_t channel) {
  std::unique_lock lock(mutex_);
  if (calling_ && caller_ == std::this_thread::get_id())
    base::fail(ErrorCode::InvalidUsage, "channel ", channel, " is ignored from inside a callback");
  Channel& entry = channels_[channel];
  entry.listener = nullptr;
  entry.current = false;
  entry.closed = true;
  entry.closing = ++lastClosing_;
  closings_.emplace_back(channel, lastClosing_);
  takeKept(entry);
  forgetOldest();
  idle_.wait(lock, [&] { return !calling_ || callingChannel_ != channel; });
}

void Dispatcher::postMessage(int from, ControlMessage message) {
  post({.kind = Kind::Message, .peer = from, .message = std::move(message)});
}

void Dispatcher::postLost(int peer, std::string how) {
  post({.kind = Kind::Lost, .peer = peer, .how = std::move(how)});
}

void Dispatcher::postLeft(int peer) { post({.kind = Kind::Left, .peer = peer}); }

void Dispatcher::post(Event event) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    inbox_.push_back(std::move(event));
  }
  hooks_.wake();
}

void Dispatcher::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  inbox_.clear();
  channels_.clear();
  if (calling_ && caller_ == std::this_thread::get_id()) return;
  idle_.wait(lock, [&] { return !calling_; });
}

std::optional<Dispatcher::Event> Dispatcher::next() {
  std::lock_guard lock(mutex_);
  if (inbox_.empty()) return std::nullopt;
  Event event = std::move(inbox_.front());
  inbox_.pop_front();
  return event;
}

void Dispatcher::deliver() {
  while (std::optional<Event> event = next()) handle(std::move(*event));
}

void Dispatcher::handle(Event event) {
  ++order_;
  switch (event.kind) {
    case Kind::Message: return handleMessage(std::move(event));
    case Kind::Lost:
    case Kind::Left: return handleGone(std::move(event));
    case Kind::Listen: return handleListen(event);
  }
}

void Dispatcher::handleMessage(Event event) {
  const uint64_t name = event.message.channel;
  const int peer = event.peer;
  bool fits = true;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    Channel& channel = channels_[name];
    if (channel.closed) return;
    if (!channel.current) {
      fits = keep(channel, std::move(event));
      if (fits) return;
    }
  }
  if (!fits)
    return hooks_.overflow(
        peer, base::message("sent more than ", kMaxKeptBytes,
                            " bytes, or too many descriptors, to channels that nobody listens on"));
  call(name,
       [&](ControlListener& listener) { listener.onMessage(peer, std::move(event.message)); });
}

// A channel that was listened on again since then stays.
void Dispatcher::forgetOldest() {
  while (closings_.size() > kMaxClosedChannels) {
    const auto [channel, closing] = closings_.front();
    closings_.pop_front();
    const auto found = channels_.find(channel);
    if (found != channels_.end() && found->second.closed && found->second.closing == closing)
      channels_.erase(found);
  }
}

size_t Dispatcher::costOf(const Event& event) {
  return sizeof(Event) + event.message.payload.size() +
         event.message.descriptors.size() * kDescriptorCost;
}

bool Dispatcher::keep(Channel& channel, Event event) {
  size_t& bytes = keptBytes_[event.peer];
  const size_t more = costOf(event);
  if (bytes + more > kMaxKeptBytes) return false;
  bytes += more;
  event.order = order_;
  channel.kept.push_back(std::move(event));
  return true;
}

std::vector<Dispatcher::Event> Dispatcher::takeKept(Channel& channel) {
  for (const Event& event : channel.kept) keptBytes_[event.peer] -= costOf(event);
  return std::exchange(channel.kept, {});
}

void Dispatcher::handleGone(Event event) {
  event.order = order_;
  for (uint64_t channel : currentChannels()) report(channel, event);
  gone_.push_back(std::move(event));
}

void Dispatcher::report(uint64_t channel, const Event& gone) {
  call(channel, [&](ControlListener& listener) {
    gone.kind == Kind::Left ? listener.onPeerLeft(gone.peer)
                            : listener.onPeerLost(gone.peer, gone.how);
  });
}

void Dispatcher::handleListen(const Event& event) {
  const uint64_t name = event.message.channel;
  std::vector<Event> kept;
  {
    std::lock_guard lock(mutex_);
    const auto found = channels_.find(name);
    if (found == channels_.end() || found->second.generation != event.generation) return;
    if (!found->second.listener) return;  // ignored before its turn came
    found->second.current = true;
    kept = takeKept(found->second);
  }
  auto lost = gone_.begin();
  for (Event& message : kept) {
    for (; lost != gone_.end() && lost->order < message.order; ++lost) report(name, *lost);
    call(name, [&](ControlListener& listener) {
      listener.onMessage(message.peer, std::move(message.message));
    });
  }
  for (; lost != gone_.end(); ++lost) report(name, *lost);
}

void Dispatcher::call(uint64_t channel, const std::function<void(ControlListener&)>& callback) {
  if (base::exitsNow()) return;
  ControlListener* listener = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = channels_.find(channel);
    if (closed_ || found == channels_.end() || !found->second.current) return;
    listener = found->second.listener;
    calling_ = true;
    callingChannel_ = channel;
    caller_ = std::this_thread::get_id();
  }
  try {
    callback(*listener);
  } catch (const std::exception& error) {
    base::log(LogLevel::Error, "a listener of channel ", channel, " threw: ", error.what());
  }
  std::lock_guard lock(mutex_);
  calling_ = false;
  idle_.notify_all();
}

void Dispatcher::tick() {
  for (uint64_t channel : currentChannels())
    call(channel, [](ControlListener& listener) { listener.onTick(); });
}

std::vector<uint64_t> Dispatcher::currentChannels() {
  std::vector<uint64_t> names;
  std::lock_guard lock(mutex_);
  for (const auto& [name, channel] : channels_)
    if (channel.current) names.push_back(name);
  return names;
}

}  // namespace tutti::bootstrap
