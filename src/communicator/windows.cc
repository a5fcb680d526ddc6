#include "src/communicator/windows.h"

#include <fcntl.h>

#include <chrono>

#include "src/base/check.h"
#include "src/base/log.h"

namespace tutti::communicator {

using executor::WindowPlace;
using transports::shm::Segment;

namespace {

// How long allocate() waits for peers to map a window; without it the first operations are staged.
constexpr std::chrono::milliseconds kAnnounceWait{2000};

}  // namespace

void SharedWindows::add(int rank, uint64_t id, std::weak_ptr<Segment> segment) {
  std::lock_guard lock(mutex_);
  segments_[{rank, id}] = std::move(segment);
}

void SharedWindows::remove(int rank, uint64_t id) {
  std::lock_guard lock(mutex_);
  segments_.erase({rank, id});
}

std::shared_ptr<Segment> SharedWindows::find(int rank, uint64_t id) const {
  std::lock_guard lock(mutex_);
  const auto it = segments_.find({rank, id});
  return it == segments_.end() ? nullptr : it->second.lock();
}

WindowTable::WindowTable(bootstrap::ControlPlane& control, std::shared_ptr<SharedWindows> shared)
    : control_(control), shared_(std::move(shared)) {
  control_.listen(kChannel, this);
}

WindowTable::~WindowTable() { control_.ignore(kChannel); }

void WindowTable::tell(int peer, Message type, uint64_t id, uint64_t bytes,
                       base::FileDescriptor fd) {
  bootstrap::ControlMessage message;
  message.channel = kChannel;
  message.type = static_cast<uint32_t>(type);
  message.payload = base::ByteWriter().put(id).put(bytes).take();
  if (fd) message.descriptors.push_back(std::move(fd));
  control_.send(peer, std::move(message));
}

bool WindowTable::neighbour(int peer) const {
  return peer != control_.rank() &&
         control_.peer(peer).bootId == control_.peer(control_.rank()).bootId;
}

Memory WindowTable::allocate(uint64_t bytes, const std::shared_ptr<void>& keepAlive) {
  if (bytes == 0) return {};
  return share(
      std::make_shared<Segment>(Segment::create(bytes, "memory of Communicator::allocate")), bytes,
      keepAlive);
}

Memory WindowTable::share(const std::shared_ptr<Segment>& segment, uint64_t bytes,
                          const std::shared_ptr<void>& keepAlive) {
  std::byte* data = segment->data();
  bool first;
  {
    std::lock_guard lock(mutex_);
    Own& own = own_.try_emplace(data, Own{.id = lastId_ + 1, .segment = segment}).first->second;
    first = ++own.shares == 1;
    if (first) ++lastId_;
  }
  // From here on its end takes everything back, an announcement that fails halfway too. The table
  // outlives the memory: keepAlive owns it.
  Memory memory(data, bytes,
                std::shared_ptr<void>(data, [this, keepAlive](void* p) { release(p); }));
  if (first) announce(data);
  return memory;
}

void WindowTable::announce(const std::byte* data) {
  std::unique_lock lock(mutex_);
  Own& own = own_.at(data);
  if (shared_) shared_->add(control_.rank(), own.id, own.segment);
  for (int peer = 0; peer < control_.size(); ++peer) {
    if (!neighbour(peer) || gone_.contains(peer)) continue;
    tell(peer, Message::Announce, own.id, own.segment->bytes(),
         shared_ ? base::FileDescriptor() : own.segment->duplicate());
    own.missing.insert(peer);  // its answer waits for the lock
  }
  if (!changed_.wait_for(lock, kAnnounceWait, [&] { return own.missing.empty(); }))
    base::log(LogLevel::Info, "rank ", *own.missing.begin(), " has not mapped ",
              own.segment->bytes(), " bytes of rank ", control_.rank(),
              " yet; collectives on them are staged until then");
}

void WindowTable::release(void* data) {
  if (guard_.inForkedChild()) return;
  std::unique_lock lock(mutex_);
  const auto it = own_.find(static_cast<const std::byte*>(data));
  TUTTI_ASSERT(it != own_.end(), "a window is released that is not there");
  if (--it->second.shares > 0) return;
  const Own own = std::move(it->second);
  own_.erase(it);
  lock.unlock();
  if (shared_) shared_->remove(control_.rank(), own.id);
  for (int peer = 0; peer < control_.size(); ++peer)
    if (neighbour(peer)) tell(peer, Message::Close, own.id, 0);
}

WindowPlace WindowTable::locate(const void* data, uint64_t bytes) const {
  const auto* first = static_cast<const std::byte*>(data);
  std::lock_guard lock(mutex_);
  auto it = own_.upper_bound(first);
  if (it == own_.begin()) return {};
  --it;
  const uint64_t offset = static_cast<uint64_t>(first - it->first);
  const Own& own = it->second;
  if (offset > own.segment->bytes() || bytes > own.segment->bytes() - offset || !own.usable())
    return {};
  return {own.id, offset};
}

std::shared_ptr<std::byte> WindowTable::resolve(int peer, WindowPlace place, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto it = peers_.find({peer, place.window});
  if (it == peers_.end()) return nullptr;
  const uint64_t all = it->second->bytes();
  if (place.offset > all || bytes > all - place.offset)
    base::fail(ErrorCode::Internal, "rank ", peer, " of the job (", control_.peer(peer).describe(),
               ") says that it has ", bytes, " bytes at offset ", place.offset, " of memory with ",
               all);
  return {it->second, it->second->data() + place.offset};
}

void WindowTable::map(int from, uint64_t id, uint64_t bytes,
                      std::vector<base::FileDescriptor> descriptors) {
  try {
    if (descriptors.size() != (shared_ ? 0 : 1))
      base::fail(ErrorCode::Refused, "it comes with ", descriptors.size(), " descriptors");
    auto segment = shared_
                       ? shared_->find(from, id)
                       : std::make_shared<Segment>(Segment::open(std::move(descriptors[0]), bytes));
    if (!segment) return;  // given back already
    std::lock_guard lock(mutex_);
    if (!peers_.try_emplace({from, id}, std::move(segment)).second)
      base::fail(ErrorCode::Refused, "it was announced before");
  } catch (const std::exception& e) {
    base::log(LogLevel::Warning, "rank ", control_.rank(), " cannot map a window of rank ", from,
              ", so that collectives on it are staged: ", e.what());
    return tell(from, Message::Refuse, id, bytes);
  }
  tell(from, Message::Acknowledge, id, bytes);
}

void WindowTable::answer(int from, uint64_t id, bool mapped) {
  std::lock_guard lock(mutex_);
  for (auto& [data, own] : own_)
    if (own.id == id && own.missing.erase(from) == 1 && !mapped) own.refused.insert(from);
  changed_.notify_all();
}

void WindowTable::onMessage(int from, bootstrap::ControlMessage message) {
  try {
    base::ByteReader reader(message.payload);
    const auto id = reader.get<uint64_t>("window");
    const auto bytes = reader.get<uint64_t>("bytes");
    reader.requireEnd();
    switch (static_cast<Message>(message.type)) {
      case Message::Announce: return map(from, id, bytes, std::move(message.descriptors));
      case Message::Acknowledge: return answer(from, id, true);
      case Message::Refuse: return answer(from, id, false);
      case Message::Close: {
        std::lock_guard lock(mutex_);
        peers_.erase({from, id});
        return;
      }
    }
    base::fail(ErrorCode::Refused, "unknown window message ", message.type);
  } catch (const std::exception& e) {
    base::log(LogLevel::Warning, "rank ", control_.rank(), " got a bad window message of rank ",
              from, ": ", e.what());
  }
}

// The dead rank's windows stay mapped: an operation may be about to use them until it learns of the
// death.
void WindowTable::onPeerLost(int peer, const std::string&) {
  std::lock_guard lock(mutex_);
  gone_.insert(peer);
  for (auto& [data, own] : own_) {
    own.missing.erase(peer);
    own.refused.erase(peer);
  }
  changed_.notify_all();
}

}  // namespace tutti::communicator
