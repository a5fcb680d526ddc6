#include <tutti/device.h>

#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/device/host_stream.h"

namespace tutti {
namespace {

using device::HostEvent;
using device::HostStream;
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
  WaitWork(std::shared_ptr<HostEvent> event, uint64_t number)
      : event_(std::move(event)), number_(number) {}
  Status poll() override { return event_->reached(number_) ? Status::Done : Status::Idle; }

 private:
  std::shared_ptr<HostEvent> event_;
  uint64_t number_;
};

}  // namespace

std::string toString(Device device) { return base::message("host:", device.index); }

Stream::Stream(Device device) {
  TUTTI_REQUIRE(device == Device{}, "there is no device ", toString(device));
  stream_ = HostStream::create();
}

Stream::~Stream() {
  if (!stream_) return;
  if (auto failure = stream_->takeFailure()) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      base::log(LogLevel::Error, "a stream was destroyed with a failure nobody saw: ", e.what());
    } catch (...) {
      base::log(LogLevel::Error, "a stream was destroyed with a failure nobody saw");
    }
  }
}

Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  Stream old(std::move(*this));
  stream_ = std::move(other.stream_);
  return *this;
}

void Stream::enqueue(std::function<void()> work) {
  stream_->enqueue(std::make_unique<FunctionWork>(std::move(work)));
}
void Stream::synchronize() { stream_->synchronize(); }
bool Stream::query() { return stream_->query(); }
Stream::operator StreamRef() const { return StreamRef(stream_.get()); }

Event::Event() : event_(std::make_shared<HostEvent>()) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

void Event::record(StreamRef stream) {
  const uint64_t number = event_->mark();
  if (!stream) return event_->reach(number);
  stream.get()->enqueue(
      std::make_unique<FunctionWork>([event = event_, number] { event->reach(number); }));
}

void Event::wait(StreamRef stream) {
  if (!stream) return synchronize();
  stream.get()->enqueue(std::make_unique<WaitWork>(event_, event_->latest()));
}

void Event::synchronize() { event_->wait(event_->latest()); }
bool Event::query() const { return event_->reached(event_->latest()); }

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
