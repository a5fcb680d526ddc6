#include <tutti/device.h>

#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/device/any_stream.h"
#include "src/device/cuda.h"
#include "src/device/host_stream.h"

namespace tutti {
namespace {

using device::AnyEvent;
using device::AnyStream;
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

class AnyOwnedStream final : public AnyStream {
 public:
  ~AnyOwnedStream() override { HostStream::retire(std::move(stream_)); }
  void enqueue(std::function<void()> work) override {
    stream_->enqueue(std::make_unique<FunctionWork>(std::move(work)));
  }
  void synchronize() override { stream_->synchronize(); }
  bool query() override { return stream_->query(); }
  StreamRef ref() const override { return StreamRef(stream_.get()); }

 private:
  std::shared_ptr<HostStream> stream_ = HostStream::create();
};

class AnyOwnedEvent final : public AnyEvent {
 public:
  ~AnyOwnedEvent() override {
    // Somebody may have been waiting for it at the fork, and would be waited for.
    if (event_->guard().inForkedChild()) base::abandon(std::move(event_));
  }
  void record(StreamRef stream) override;
  void wait(StreamRef stream) override;
  void synchronize() override;
  bool query() const override;

 private:
  static void requireHost(const char* call, StreamRef stream) {
    TUTTI_REQUIRE(!stream.isCuda(), call, ": the event is the host's, and the stream is of ",
                  toString(stream.device()));
  }
  std::shared_ptr<HostEvent> event_ = std::make_shared<HostEvent>();
};

void AnyOwnedEvent::record(StreamRef stream) {
  event_->guard().requireOwner("Event::record");
  requireHost("Event::record", stream);
  auto mark = std::make_shared<Mark>();
  if (stream && !stream.host()->idle())  // else nobody has to wake up for it
    stream.host()->enqueue(std::make_unique<FunctionWork>([mark] { mark->reach(); }));
  else
    mark->reach();
  event_->record(std::move(mark));  // not when enqueue() threw
}

void AnyOwnedEvent::wait(StreamRef stream) {
  if (!stream) return synchronize();
  event_->guard().requireOwner("Event::wait");
  requireHost("Event::wait", stream);
  if (auto mark = event_->latest())
    stream.host()->enqueue(std::make_unique<WaitWork>(std::move(mark)));
}

void AnyOwnedEvent::synchronize() {
  event_->guard().requireOwner("Event::synchronize");
  if (const auto mark = event_->latest()) mark->wait();
}

bool AnyOwnedEvent::query() const {
  event_->guard().requireOwner("Event::query");
  const auto mark = event_->latest();
  return !mark || mark->reached();
}

/// Throws unless there is such a device.
void requireDevice(Device device) {
  if (device.kind == DeviceKind::Cuda) return device::requireCudaDevice(device.index);
  TUTTI_REQUIRE(device == Device{}, "there is no device ", toString(device));
}

}  // namespace

namespace device {

std::unique_ptr<AnyStream> makeHostStream() { return std::make_unique<AnyOwnedStream>(); }
std::unique_ptr<AnyEvent> makeHostEvent() { return std::make_unique<AnyOwnedEvent>(); }

std::string describe(MemoryPlace place) {
  switch (place.kind) {
    case MemoryPlace::Kind::Host: return "ordinary memory of the host";
    case MemoryPlace::Kind::Pinned: return "pinned memory of the host";
    case MemoryPlace::Kind::Managed: return "managed memory of CUDA";
    case MemoryPlace::Kind::Cuda: break;
  }
  return "memory of " + toString(Device{DeviceKind::Cuda, place.device});
}

void requireCudaDevice(int device) {
  const CudaSupport& cuda = cudaSupport();
  const std::string name = toString(Device{DeviceKind::Cuda, device});
  if (cuda.devices == 0)
    base::fail(ErrorCode::Unsupported, "there is no device ", name, ": ", cuda.missing);
  if (device < 0 || device >= cuda.devices)
    base::fail(ErrorCode::Unsupported, "there is no device ", name, ": CUDA sees ", cuda.devices);
}

}  // namespace device

std::string toString(Device device) {
  return base::message(device.kind == DeviceKind::Cuda ? "cuda:" : "host:", device.index);
}

int deviceCount(DeviceKind kind) {
  return kind == DeviceKind::Cuda ? device::cudaSupport().devices : 1;
}
std::string whyNoDevice(DeviceKind kind) {
  return kind == DeviceKind::Cuda ? device::cudaSupport().missing : std::string();
}

StreamRef StreamRef::cuda(CUstream_st* stream) { return device::borrowCudaStream(stream); }

Stream::Stream(Device device) {
  requireDevice(device);
  stream_ = device.kind == DeviceKind::Cuda ? device::makeCudaStream(device.index)
                                            : device::makeHostStream();
}
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  Stream old(std::move(*this));
  stream_ = std::move(other.stream_);
  return *this;
}

void Stream::enqueue(std::function<void()> work) {
  TUTTI_REQUIRE(work, "an empty function was enqueued");
  stream_->enqueue(std::move(work));
}
void Stream::synchronize() { stream_->synchronize(); }
bool Stream::query() { return stream_->query(); }
Stream::operator StreamRef() const { return stream_ ? stream_->ref() : StreamRef(); }

Event::Event() : Event(Device{}) {}
Event::Event(Device device) {
  requireDevice(device);
  event_ = device.kind == DeviceKind::Cuda ? device::makeCudaEvent(device.index)
                                           : device::makeHostEvent();
}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&& other) noexcept {
  Event old(std::move(*this));
  event_ = std::move(other.event_);
  return *this;
}

void Event::record(StreamRef stream) { event_->record(stream); }
void Event::wait(StreamRef stream) { event_->wait(stream); }
void Event::synchronize() { event_->synchronize(); }
bool Event::query() const { return event_->query(); }

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

Memory allocateOn(Device device, size_t bytes) {
  TUTTI_REQUIRE(device.kind == DeviceKind::Cuda, "allocateOn: ", toString(device),
                " is no GPU; memory of the host is Communicator::allocate's, or anybody's");
  requireDevice(device);
  return device::allocateCuda(device.index, bytes);
}

Memory allocatePinned(size_t bytes) { return device::allocateCudaPinned(bytes); }

void copy(const CopyArgs& args, StreamRef stream) {
  if (args.bytes == 0) return;
  TUTTI_REQUIRE(args.to != nullptr && args.from != nullptr,
                "copy: ", args.to == nullptr ? "to" : "from", " is null, and there are ",
                args.bytes, " bytes");
  if (stream.isCuda()) return device::copyOn(stream, args.to, args.from, args.bytes);
  const auto onHost = [args] { std::memcpy(args.to, args.from, args.bytes); };
  if (stream) return stream.host()->enqueue(std::make_unique<FunctionWork>(onHost));
  if (device::cudaSupport().devices == 0) return onHost();
  device::copyMemory(args.to, args.from, args.bytes);
}

}  // namespace tutti
