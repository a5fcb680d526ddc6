#pragma once

/// \file
/// Devices, streams, events and memory. A device is the host or an NVIDIA GPU. A stream of the host
/// is an ordered queue of work that the process's progress engine executes; a stream of a GPU is a
/// CUDA stream. This header does not need CUDA's headers.
///
/// Without a GPU, and in builds without CUDA, everything works on the host. A call that names a GPU
/// then throws Unsupported and says why.
///
/// No call changes the calling thread's current CUDA device.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

struct CUstream_st;  // CUDA's; cudaStream_t is a pointer to it

namespace tutti {

enum class DeviceKind { Host, Cuda };

/// A value that names a device. `index` counts devices of one kind; for a GPU it is CUDA's device
/// number.
struct Device {
  DeviceKind kind = DeviceKind::Host;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// "host:0", "cuda:1".
std::string toString(Device device);

/// The number of devices of a kind. Zero for GPUs if the build has no CUDA, or CUDA finds no GPU.
int deviceCount(DeviceKind kind);
/// The reason why there is no device of a kind, as a sentence. Empty if there is one.
std::string whyNoDevice(DeviceKind kind);

namespace device {
class AnyEvent;  // src/device
class AnyStream;
class HostStream;
}  // namespace device

/// Borrows a stream. The default value means "no stream": the call completes before it returns.
class StreamRef {
 public:
  StreamRef() = default;
  explicit StreamRef(device::HostStream* stream)
      : kind_(stream ? Kind::Host : Kind::None), host_(stream) {}
  /// Borrows any CUDA stream of the program. It may also be a default stream: null or
  /// cudaStreamLegacy, or cudaStreamPerThread. A default stream is the one of the CUDA device that
  /// is current now. Throws Unsupported without CUDA.
  static StreamRef cuda(CUstream_st* stream);

  explicit operator bool() const { return kind_ != Kind::None; }
  bool isCuda() const { return kind_ == Kind::Cuda; }
  /// The stream's device; the host if there is no stream.
  Device device() const { return {isCuda() ? DeviceKind::Cuda : DeviceKind::Host, index_}; }
  /// Null unless this is a stream of the host.
  device::HostStream* host() const { return host_; }
  /// The CUDA stream, if isCuda(). Null may then be the legacy default stream.
  CUstream_st* cuda() const { return cuda_; }

 private:
  friend class device::AnyStream;
  enum class Kind { None, Host, Cuda };
  StreamRef(CUstream_st* stream, int index) : kind_(Kind::Cuda), cuda_(stream), index_(index) {}

  Kind kind_ = Kind::None;
  device::HostStream* host_ = nullptr;
  CUstream_st* cuda_ = nullptr;
  int index_ = 0;
};

/// Owns an ordered queue of work. Work of one stream runs in the order in which it was enqueued.
/// Work of different streams may run at the same time. Any thread may enqueue. A stream of a GPU
/// and the legacy default stream do not wait for each other.
class Stream {
 public:
  explicit Stream(Device device = {});
  ~Stream();  ///< waits for all enqueued work; logs a failure that nobody has seen
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// Enqueues a host function. It must not block for long and must not throw. On a GPU stream it
  /// must not call CUDA either, nor destroy an object that does. In a capture it becomes a node of
  /// the graph: it runs whenever the graph runs, and lives as long as the graph.
  void enqueue(std::function<void()> work);
  /// Returns when all work that was enqueued before this call is done, and throws its first
  /// failure. Throws InvalidUsage while the stream is being captured; the capture goes on.
  void synchronize();
  /// True if nothing is queued or running. Throws like synchronize().
  bool query();

  operator StreamRef() const;

 private:
  std::unique_ptr<device::AnyStream> stream_;
};

/// A point in a stream that other streams and the host can wait for. Any thread may call its
/// methods. Only one thread may move or destroy it, while no other uses it.
///
/// An event of a GPU is recorded in streams of that GPU, and streams of any GPU can wait for it. An
/// event of the host goes with streams of the host. After record() in a capture, the event is a
/// place in the graph: synchronize() and query() throw InvalidUsage until it is recorded again
/// outside of a capture.
class Event {
 public:
  Event();  ///< an event of the host
  explicit Event(Device device);
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  void record(StreamRef stream);  ///< marks the end of `stream` now; a second call moves the mark
  void wait(StreamRef stream);    ///< work that is enqueued on `stream` later runs after the mark
  void synchronize();             ///< the caller waits; an unrecorded event counts as reached
  bool query() const;             ///< true if the mark is reached

 private:
  std::unique_ptr<device::AnyEvent> event_;
};

/// Owns memory. Like a unique_ptr, one thread at a time moves or destroys it.
///
/// The other ranks of the host can address memory of Communicator::allocate(), so collectives on it
/// move each byte once. The same holds for memory of allocateShareable() that a communicator
/// shares.
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

  // For the library alone.
  Memory(void* data, size_t bytes, std::shared_ptr<void> owner);  ///< ~owner releases the memory
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

/// Allocates memory of a GPU with cudaMalloc(). It is not initialized. All work that uses it must
/// have ended before it is released. Zero bytes give a Memory with a null pointer. Throws
/// OutOfMemory, which names the bytes, and InvalidArgument for the host.
Memory allocateOn(Device device, size_t bytes);

/// Allocates page-locked memory of the host. Every GPU can address it by the same pointer.
/// Otherwise like allocateOn().
Memory allocatePinned(size_t bytes);

/// Arguments of copy(). Both sides are memory of the host or of a GPU, and do not overlap.
struct CopyArgs {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};
/// Enqueues a copy on `stream`. Both sides must live until the stream has done it. A stream of the
/// host copies only host memory.
///
/// Without a stream, it returns when the bytes are copied. It then waits for the legacy default
/// stream of the current device, and for other threads' copies of this kind. It waits for no other
/// stream of the program.
void copy(const CopyArgs& args, StreamRef stream = {});

}  // namespace tutti
