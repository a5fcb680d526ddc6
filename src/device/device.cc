#include <tutti/device.h>

#include <utility>

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/device/host_stream.h"

namespace tutti {
namespace {

using device::HostEvent;
using device::HostStream;
using device::Mark;
using device::Work;

class FunctionWork final : public Work {
 public:
  explicit FunctionWork(std::function<void()> function) : function_(std::move(function)) {}
  Status poll() override {
    function_();
    return Status::Done;
  }

 private:
  std::function<void()> function_;
};

class WaitWork final : public Work {
 public:
  explicit WaitWork(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  Status poll() override { return mark_->reached() ? Status::Done : Status::Idle; }

 private:
  std::shared_ptr<Mark> mark_;
};

}  // namespace

std::string toString(Device device) { return base::message("host:", device.index); }

Stream::Stream(Device device) {
  TUTTI_REQUIRE(device == Device{}, "there is no device ", toString(device));
  stream_ = HostStream::create();
}

Stream::~Stream() {
  if (stream_) HostStream::retire(std::move(stream_));
}

Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  Stream old(std::move(*this));
  stream_ = std::move(other.stream_);
  return *this;
}

void Stream::enqueue(std::function<void()> work) {
  TUTTI_REQUIRE(work, "an empty function was enqueued");
  stream_->enqueue(std::make_unique<FunctionWork>(std::move(work)));
}
void Stream::synchronize() { stream_->synchronize(); }
bool Stream::query() { return stream_->query(); }
Stream::operator StreamRef() const { return StreamRef(stream_.get()); }

Event::Event() : event_(std::make_shared<HostEvent>()) {}
Event::~Event() {
  // Somebody may have been waiting for it at the fork, and would be waited for.
  if (event_ && event_->guard().inForkedChild()) base::abandon(std::move(event_));
}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&& other) noexcept {
  Event old(std::move(*this));
  event_ = std::move(other.event_);
  return *this;
}

void Event::record(StreamRef stream) {
  event_->guard().requireOwner("Event::record");
  auto mark = std::make_shared<Mark>();
  if (stream && !stream.get()->idle())  // else nobody has to wake up for it
    stream.get()->enqueue(std::make_unique<FunctionWork>([mark] { mark->reach(); }));
  else
    mark->reach();
  event_->record(std::move(mark));  // not when enqueue() threw
}

void Event::wait(StreamRef stream) {
  if (!stream) return synchronize();
  event_->guard().requireOwner("Event::wait");
  if (auto mark = event_->latest())
    stream.get()->enqueue(std::make_unique<WaitWork>(std::move(mark)));
}

void Event::synchronize() {
  event_->guard().requireOwner("Event::synchronize");
  if (const auto mark = event_->latest()) mark->wait();
}

bool Event::query() const {
  event_->guard().requireOwner("Event::query");
  const auto mark = event_->latest();
  return !mark || mark->reached();
}

Memory::Memory(void* data, size_t bytes, std::shared_ptr<void> owner)
    : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
Memory::~Memory() = default;
Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      owner_(std::move(other.owner_)) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  Memory old(std::move(*this));
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  owner_ = std::move(other.owner_);
  return *this;
}

}  // namespace tutti
