#pragma once

// Where work runs and where memory lives. In this build the only kind is the host: a stream is an
// ordered queue of work that the process's progress engine executes.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tutti {

enum class DeviceKind { Host };

/// A value naming a device; `index` counts devices of one kind.
struct Device {
  DeviceKind kind = DeviceKind::Host;
  int index = 0;
  bool operator==(const Device&) const = default;
};

std::string toString(Device device);

namespace device {
class HostStream;  // src/device
class HostEvent;
}  // namespace device

/// Borrows a stream. The default value is "no stream": the call completes before it returns.
class StreamRef {
 public:
  StreamRef() = default;
  explicit StreamRef(device::HostStream* stream) : stream_(stream) {}
  explicit operator bool() const { return stream_ != nullptr; }
  device::HostStream* get() const { return stream_; }

 private:
  device::HostStream* stream_ = nullptr;
};

/// Owns an ordered queue of work. Work of one stream runs in the order in which it was enqueued;
/// work of different streams may run at the same time. Any thread may enqueue.
class Stream {
 public:
  explicit Stream(Device device = {});
  ~Stream();  ///< waits for everything enqueued; a failure not yet seen goes to the log
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// Enqueues a host function. It must not block for long and must not throw.
  void enqueue(std::function<void()> work);
  /// Returns once everything enqueued before this call is done; throws the first failure among it.
  void synchronize();
  /// True when nothing is queued or running. Throws a failure like synchronize().
  bool query();

  operator StreamRef() const;

 private:
  std::shared_ptr<device::HostStream> stream_;
};

/// A point in a stream that other streams and the host can wait for. Any thread may call it; moving
/// and destroying it is for one thread that knows that no other does.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  void record(StreamRef stream);  ///< marks what `stream` holds now; recording again moves the mark
  void wait(StreamRef stream);    ///< what is enqueued on `stream` from now on runs after the mark
  void synchronize();             ///< the caller waits; an event never recorded counts as reached
  bool query() const;

 private:
  std::shared_ptr<device::HostEvent> event_;
};

/// Owns memory. Memory of Communicator::allocate can be addressed by the other ranks of the host,
/// so collectives on it move each byte once; that of allocateShareable() can be, where a
/// communicator shares it. As a unique_ptr: one thread at a time moves or destroys it.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

  // For the library.
  Memory(void* data, size_t bytes, std::shared_ptr<void> owner);  ///< ~owner releases it
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

}  // namespace tutti
