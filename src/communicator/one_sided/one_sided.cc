#include "src/communicator/one_sided/one_sided.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/failure/watchdog.h"
#include "src/communicator/one_sided/service.h"
#include "src/communicator/world.h"
#include "src/device/cuda.h"

namespace tutti::communicator {

using executor::Poll;
using message::WindowMessage;

namespace {

// What one look sends, at most: so many messages, or copies of so many bytes.
constexpr int kMostSends = 8;
constexpr uint64_t kMostStored = uint64_t{1} << 18;

}  // namespace

OneSided::OneSided(const Membership& who, const Settings& settings, RankLinks& links,
                   Messages& messages, FailureState& failure, Peers& peers, GpuBackend& gpu)
    : who_(who),
      settings_(settings),
      links_(links),
      messages_(messages),
      failure_(failure),
      peers_(peers),
      gpu_(gpu),
      ranks_(static_cast<size_t>(who.size())),
      service_(std::make_shared<OneSidedService>(*this)) {
  messages.handle<WindowMessage>(
      [this](int peer, WindowMessage told, std::vector<base::FileDescriptor> descriptors) {
        hear(peer, std::move(told), std::move(descriptors));
      });
}

OneSided::~OneSided() {
  if (!who_.inForkedChild()) service_->end();
}

// --- Windows

uint64_t OneSided::open(void* data, uint64_t bytes, bool ofGpu) {
  Buffer mine{.data = static_cast<std::byte*>(data), .bytes = bytes, .ofGpu = ofGpu};
  if (!ofGpu && bytes > 0) mine.place = who_.world()->windows->locate(data, bytes);
  if (ofGpu && bytes > 0 && gpusAddressEachOther()) {
    gpu_.rank()->allowPeers(data, bytes);
    mine.exported = exported(data);
  }
  const std::lock_guard lock(mutex_);
  if (!stream_) stream_.emplace();
  if (!endpoint_ && who_.size() > 1) makeEndpoint();
  if (arrived_.empty()) {
    arrived_.resize(static_cast<size_t>(who_.size()) * settings_.signals);
    claimed_ = arrived_;
  }
  const uint64_t window = ++opened_;
  own_.emplace(window, mine);
  ++alive_;
  messages_.sendAll(WindowMessage{.kind = WindowMessage::Kind::Opened,
                                  .window = window,
                                  .bytes = bytes,
                                  .ofGpu = ofGpu,
                                  .gpuAddress = ofGpu ? reinterpret_cast<uintptr_t>(data) : 0,
                                  .place = mine.place,
                                  .address = mine.exported});
  serveFromNowOn();
  return window;
}

void OneSided::close(uint64_t window) {
  const std::lock_guard lock(mutex_);
  own_.erase(window);
  {
    const auto held = failure_.lock();
    std::erase_if(theirs_, [window](const auto& each) {
      return each.first.second == window && each.second.given;
    });
  }
  --alive_;
  messages_.sendAll(WindowMessage{.kind = WindowMessage::Kind::Closed, .window = window});
}

OneSided::Buffer OneSided::bufferOf(int rank, uint64_t window) const {
  if (rank == who_.rank()) {
    const std::lock_guard lock(mutex_);
    return own_.at(window);
  }
  auto lock = failure_.lock();
  const auto found = [&] { return theirs_.find({rank, window}); };
  const auto wait = [&](int64_t ms) {
    return failure_.wait(lock, std::chrono::milliseconds(ms), [&] {
      return failure_.reason(lock) || peers_.at(rank, lock).isGone() || found() != theirs_.end();
    });
  };
  const int64_t quietMs = settings_.stragglerMs;
  const bool reports = quietMs > 0 && quietMs < settings_.setupTimeoutMs;
  bool told = wait(reports ? quietMs : settings_.setupTimeoutMs);
  if (!told && reports) {
    lock.unlock();
    base::log(LogLevel::Warning, who_.self(), ": a call with window ", window, " has waited ",
              quietMs, " ms; straggler: ", who_.name(rank), ", which has not made the window");
    lock.lock();
    told = wait(settings_.setupTimeoutMs - quietMs);
  }
  if (failure_.reason(lock)) failure_.throwFailure(lock);
  if (found() != theirs_.end()) return found()->second;
  if (told)
    base::fail(ErrorCode::PeerLost, who_.name(rank), " left before it made window ", window);
  base::fail(ErrorCode::Timeout, who_.self(), ": ", who_.name(rank), " has not made window ",
             window, " within ", settings_.setupTimeoutMs,
             " ms: all ranks of the communicator call window()");
}

std::shared_ptr<std::byte> OneSided::addressOf(int rank, const Buffer& buffer) const {
  if (buffer.given) return nullptr;
  if (rank == who_.rank()) return {std::shared_ptr<void>(), buffer.data};
  if (buffer.ofGpu) return onGpu(rank, buffer);
  if (buffer.place.window == executor::WindowPlace::kNone) return nullptr;
  return who_.world()->windows->resolve(who_.inWorld(rank), buffer.place, buffer.bytes);
}

std::shared_ptr<std::byte> OneSided::onGpu(int rank, const Buffer& buffer) const {
  if (!gpusAddressEachOther()) return nullptr;
  if (gpu_.join()->isInThisProcess(rank)) return {std::shared_ptr<void>(), buffer.data};
  if (!gpu_.join()->isInOtherProcess(rank) || buffer.exported.empty()) return nullptr;
  try {
    return device::openMemory(buffer.exported, buffer.bytes, settings_.device.index);
  } catch (const Error& e) {  // so its owner applies what is put there
    base::log(LogLevel::Info, who_.self(), " cannot map the buffer of ", who_.name(rank),
              " in a window: ", e.what());
    return nullptr;
  }
}

base::Bytes OneSided::exported(const void* data) const {
  try {
    return device::exportMemory(data, settings_.device.index);
  } catch (const Error& e) {  // so ranks of other processes put by messages
    base::log(LogLevel::Info, who_.self(),
              " cannot give its buffer in a window to other processes: ", e.what());
    return {};
  }
}

bool OneSided::gpusAddressEachOther() const { return gpu_.rank() && !gpu_.join()->hasPairsApart(); }

bool OneSided::hasBuffers() const {
  const std::lock_guard lock(mutex_);
  return !own_.empty();
}

bool OneSided::hasWindows() const {
  const std::lock_guard lock(mutex_);
  return opened_ > 0;
}

// --- Set-up, and what other ranks say

void OneSided::makeEndpoint() {
  const topology::Topology& topology = links_.topology();
  transports::RingLayout layout = layoutFor(topology, settings_.transport);
  layout.channels = 1;
  const bool networked = needsNetwork(topology, settings_.transport);
  endpoint_ = communicator::makeEndpoint(who_.rank(), topology, settings_.transport,
                                         networked ? links_.network() : nullptr, layout);
  for (int peer = 0; peer < who_.size(); ++peer) {
    if (peer == who_.rank()) continue;
    transports::EndpointAddress address = endpoint_->address(peer);
    messages_.send(
        peer, WindowMessage{.kind = WindowMessage::Kind::Join, .address = std::move(address.blob)},
        std::move(address.descriptors));
    if (ranks_[peer].address) connect(peer);
  }
}

void OneSided::connect(int peer) {
  Link& link = ranks_[peer];
  try {
    endpoint_->connect(peer, *std::exchange(link.address, std::nullopt));
  } catch (const Error& e) {
    noteBreak(peer, Error(e.code(), base::message(who_.self(), " cannot connect to ",
                                                  who_.name(peer), " for windows: ", e.what())));
    return;
  }
  link.connected = true;
  messages_.send(peer, WindowMessage{.kind = WindowMessage::Kind::Ready});
}

void OneSided::hear(int peer, WindowMessage told, std::vector<base::FileDescriptor> descriptors) {
  if (told.kind == WindowMessage::Kind::Opened || told.kind == WindowMessage::Kind::Closed) {
    hearOfBuffer(peer, told);
    return;
  }
  const std::lock_guard lock(mutex_);
  Link& link = ranks_[peer];
  switch (told.kind) {
    case WindowMessage::Kind::Join:
      if (link.address || link.connected) base::fail(ErrorCode::Refused, "a second address");
      link.address = {std::move(told.address), std::move(descriptors)};
      if (endpoint_) connect(peer);
      break;
    case WindowMessage::Kind::Ready: link.ready = true; break;
    default: link.sends = true; break;
  }
}

void OneSided::hearOfBuffer(int peer, const WindowMessage& told) {
  const bool opens = told.kind == WindowMessage::Kind::Opened;
  const std::lock_guard lock(mutex_);
  {
    const auto held = failure_.lock();
    const auto known = theirs_.find({peer, told.window});
    if (opens != (known == theirs_.end()) || (!opens && known->second.given))
      base::fail(ErrorCode::Refused, "window ", told.window, " is opened twice, or not open");
    if (opens)
      theirs_[{peer, told.window}] = {.data = reinterpret_cast<std::byte*>(told.gpuAddress),
                                      .bytes = told.bytes,
                                      .ofGpu = told.ofGpu,
                                      .place = told.place,
                                      .exported = told.address};
    else if (told.window <= opened_ && !own_.contains(told.window))
      theirs_.erase(known);  // nobody asks for it any more
    else
      known->second.given = true;
  }
  alive_ += opens ? 1 : -1;
  serveFromNowOn();
}

// --- The service

void OneSided::serveFromNowOn() {
  if (endpoint_ && alive_ > 0) service_->wake(*stream_);
}

bool OneSided::serve(bool& moved) {
  const std::lock_guard lock(mutex_);
  if (alive_ <= 0 || failure_.hasFailed()) return false;
  try {
    moved = move();
  } catch (const Error&) {  // the communicator has failed with it
  }
  return true;
}

void OneSided::post(std::unique_ptr<device::Work> work) {
  service_->post(std::move(work), *stream_);
}

void OneSided::copy(void* to, const void* from, uint64_t bytes, bool onGpu) const {
  if (bytes == 0) return;
  if (onGpu)
    device::copyAside(settings_.device.index, to, from, bytes);
  else
    std::memmove(to, from, bytes);
}

bool OneSided::move() {
  if (!endpoint_) return false;
  bool moved = false;
  try {
    moved = receive();
    if (!moved) moved = endpoint_->progress();
  } catch (const transports::ConnectionLost& lost) {
    noteBreak(lost);
  } catch (const Error& e) {
    failure_.fail(e, true);
    failure_.throwFailure();
  }
  if (!breaks_.empty()) lookAtBreaks();
  return moved;
}

void OneSided::noteBreak(const transports::ConnectionLost& lost) {
  noteBreak(lost.peer(), Error(ErrorCode::PeerLost,
                               base::message(who_.name(lost.peer()), " was lost: ", lost.how(),
                                             "; ", who_.self(), " noticed by its windows")));
}

void OneSided::noteBreak(int peer, const Error& what) {
  breaks_.try_emplace(peer, what, base::SteadyClock().nowNs());
}

// That there is no connection with a rank that has left is no loss, also if it left before there
// was one.
void OneSided::lookAtBreaks() {
  std::erase_if(breaks_, [&](const auto& each) { return peers_.hasLeft(each.first); });
  const int64_t now = base::SteadyClock().nowNs();
  for (const auto& [peer, broken] : breaks_)
    if (now - broken.second >= kBreakNs) {
      failure_.fail(broken.first, true);
      failure_.throwFailure();
    }
}

bool OneSided::receive() {
  bool moved = false;
  for (int peer = 0; peer < who_.size(); ++peer) {
    const Link& link = ranks_[peer];
    if (!link.sends || !link.connected) continue;
    transports::ReceiveRing& ring = endpoint_->receiveRing(peer, 0);
    for (uint32_t i = 0; i < endpoint_->layout().slotCount && ring.ready(); ++i) {
      apply(peer, ring);
      ring.release();
      moved = true;
    }
  }
  return moved;
}

void OneSided::apply(int peer, transports::ReceiveRing& ring) {
  const transports::SlotHeader& slot = *ring.slot();
  OneSidedHeader header;
  const uint32_t told = slot.bytes;  // the peer may write there
  if (slot.callHash != kOneSidedMark || told < sizeof header ||
      told > endpoint_->layout().slotBytes)
    base::fail(ErrorCode::Internal, who_.name(peer), " sent a malformed one-sided message to ",
               who_.self());
  const std::byte* const payload = ring.payload();
  std::memcpy(&header, payload, sizeof header);
  write(header, peer, payload + sizeof header, told - sizeof header, false);
}

void OneSided::write(const OneSidedHeader& header, int from, const std::byte* data, uint64_t bytes,
                     bool dataOfGpu) {
  if (header.window > opened_ || (header.window == 0 && bytes > 0))
    base::fail(ErrorCode::Internal, who_.name(from), " puts ", bytes, " bytes into window ",
               header.window, " of ", who_.self(), ", which has made ", opened_, " windows");
  if (header.window != 0) {
    const auto found = own_.find(header.window);
    if (found == own_.end())
      base::fail(ErrorCode::InvalidUsage, who_.name(from), " puts into window ", header.window,
                 " of ", who_.self(), ", which has given its buffer back");
    const Buffer& buffer = found->second;
    if (header.offset > buffer.bytes || bytes > buffer.bytes - header.offset)
      base::fail(ErrorCode::Internal, who_.name(from), " puts ", bytes, " bytes at ", header.offset,
                 " into window ", header.window, " of ", who_.self(), ", which has ", buffer.bytes);
    copy(buffer.data + header.offset, data, bytes, buffer.ofGpu || dataOfGpu);
  }
  if (header.signal > settings_.signals)
    base::fail(ErrorCode::Internal, who_.name(from), " sent signal ", header.signal - 1, " to ",
               who_.self(), ", which has ", settings_.signals);
  if (header.signal > 0) ++arrived_[counter(from, header.signal - 1)];
}

// --- Calls

Poll OneSided::advance(const OneSidedCall& call, OneSidedProgress& progress) {
  const std::lock_guard lock(mutex_);
  failure_.throwIfFailed();
  if (!progress.begun) claim(call, progress);
  bool moved = move();
  const size_t before = progress.put;
  try {
    for (int i = 0; i < kMostSends && progress.put < call.puts.size(); ++i) {
      if (!send(call.puts[progress.put], progress)) break;
      moved = true;
    }
    if (progress.put > before && endpoint_) endpoint_->flush();
  } catch (const transports::ConnectionLost& lost) {
    noteBreak(lost);
  }
  while (progress.wait < call.waits.size() && isOver(call.waits[progress.wait], progress))
    ++progress.wait;
  if (progress.put == call.puts.size() && progress.wait == call.waits.size()) {
    unlist(progress);
    return Poll::Done;
  }
  if (moved) return Poll::Moved;
  if (progress.sinceNs == 0) progress.sinceNs = base::SteadyClock().nowNs();
  return Poll::Idle;
}

// Waits take the signals in the order in which they begin.
void OneSided::claim(const OneSidedCall& call, OneSidedProgress& progress) {
  progress.begun = progress.listed = true;
  underWay_.emplace_back(&call, &progress);
  for (const SignalWait& wait : call.waits)
    progress.wanted.push_back(claimed_[counter(wait.peer, wait.signal)] += wait.count);
}

bool OneSided::isOver(const SignalWait& wait, const OneSidedProgress& progress) const {
  return arrived_[counter(wait.peer, wait.signal)] >= progress.wanted[progress.wait];
}

int OneSided::waitsFor(const OneSidedCall& call, const OneSidedProgress& progress) {
  if (progress.put < call.puts.size()) return call.puts[progress.put].peer;
  return progress.wait < call.waits.size() ? call.waits[progress.wait].peer : -1;
}

void OneSided::unlist(OneSidedProgress& progress) {
  std::erase_if(underWay_, [&](const auto& each) { return each.second == &progress; });
  progress.listed = false;
}

void OneSided::forget(OneSidedProgress& progress) {
  const std::lock_guard lock(mutex_);
  unlist(progress);
}

std::string OneSided::describe() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [call, progress] : underWay_) {
    text += base::message("  ", call->describe(), " is under way");
    if (progress->bytes > 0) text += base::message(", ", progress->bytes, " bytes sent");
    const int peer = waitsFor(*call, *progress);
    if (progress->sinceNs > 0 && peer >= 0)
      text += base::message("; waits for rank ", peer, ", ",
                            (base::SteadyClock().nowNs() - progress->sinceNs) / 1'000'000,
                            " ms after it first had to wait");
    text += "\n";
  }
  return text;
}

/// True when something has moved.
bool OneSided::send(const Put& put, OneSidedProgress& progress) {
  if (put.peer == who_.rank()) {
    write({put.window, put.offset, put.signal + 1}, put.peer, put.data, put.bytes, put.ofGpu);
    ++progress.put;
    progress.bytes = 0;
    return true;
  }
  if (put.direct && !put.stored && progress.bytes < put.bytes) {
    const uint64_t bytes = std::min(put.bytes - progress.bytes, kMostStored);
    copy(put.direct.get() + progress.bytes, put.data + progress.bytes, bytes,
         put.ofGpu || put.toGpu);
    progress.bytes += bytes;
    return true;
  }
  return sendMessage(put, progress);
}

// The last message of a put has its signal.
bool OneSided::sendMessage(const Put& put, OneSidedProgress& progress) {
  if (!isReady(put.peer)) return false;
  transports::SendRing& ring = endpoint_->sendRing(put.peer, 0);
  if (!ring.ready()) return false;
  OneSidedHeader header{put.window, put.offset};
  const uint64_t room = endpoint_->layout().slotBytes - sizeof header;
  const uint64_t left = put.stored ? 0 : put.bytes - progress.bytes;
  const uint64_t bytes = std::min(left, room);
  const bool last = bytes == left;
  if (bytes > 0) header.offset += progress.bytes;
  if (last) header.signal = put.signal + 1;
  const auto whole = static_cast<uint32_t>(sizeof header + bytes);
  std::byte* const payload = ring.payload(whole);
  std::memcpy(payload, &header, sizeof header);
  copy(payload + sizeof header, put.data + progress.bytes, bytes, put.ofGpu);
  ring.publish(kOneSidedMark, 0, whole);
  progress.bytes = last ? 0 : progress.bytes + bytes;
  progress.put += last ? 1 : 0;
  return true;
}

bool OneSided::isReady(int peer) {
  Link& link = ranks_[peer];
  if (!std::exchange(link.told, true))
    messages_.send(peer, WindowMessage{.kind = WindowMessage::Kind::Sends});
  return link.connected && link.ready;
}

uint64_t OneSided::memoryBytes() const {
  const std::lock_guard lock(mutex_);
  return endpoint_ ? endpoint_->memoryBytes() : 0;
}

void OneSided::opensAtItsEnd(std::weak_ptr<device::StreamGate> gate) {
  const std::lock_guard lock(mutex_);
  gate_ = std::move(gate);
}

void OneSided::openGate() {
  const std::lock_guard lock(mutex_);
  if (const auto gate = gate_.lock()) gate->open();
}

transports::Endpoint* OneSided::endpoint() const {
  const std::lock_guard lock(mutex_);
  return endpoint_.get();
}

}  // namespace tutti::communicator
