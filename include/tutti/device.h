#pragma once

// Where work runs and where memory lives: the host, where a stream is an ordered queue of work that
// the process's progress engine executes, and NVIDIA GPUs, where it is CUDA's. CUDA's headers are
// not needed here. Without a GPU, and in builds without CUDA, everything works on the host, and
// what names another device throws Unsupported and says why.
//
// The calling thread's current CUDA device is the same after every call as before it.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

struct CUstream_st;  // CUDA's: its cudaStream_t is a pointer to one

namespace tutti {

enum class DeviceKind { Host, Cuda };

/// A value naming a device; `index` counts devices of one kind. That of a GPU is CUDA's.
struct Device {
  DeviceKind kind = DeviceKind::Host;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// "host:0", "cuda:1".
std::string toString(Device device);

/// How many there are; of GPUs none where CUDA was not built in or finds none.
int deviceCount(DeviceKind kind);
/// Why there is none, as a sentence; empty when there is one.
std::string whyNoDevice(DeviceKind kind);

namespace device {
class AnyEvent;  // src/device
class AnyStream;
class HostStream;
}  // namespace device

/// Borrows a stream. The default value is "no stream": the call completes before it returns.
class StreamRef {
 public:
  StreamRef() = default;
  explicit StreamRef(device::HostStream* stream)
      : kind_(stream ? Kind::Host : Kind::None), host_(stream) {}
  /// Borrows a CUDA stream, which may be anybody's, and also a default stream: null or
  /// cudaStreamLegacy, or cudaStreamPerThread. These two are those of the device that is current
  /// now. Throws Unsupported where there is no CUDA.
  static StreamRef cuda(CUstream_st* stream);

  explicit operator bool() const { return kind_ != Kind::None; }
  bool isCuda() const { return kind_ == Kind::Cuda; }
  /// Host where there is no stream.
  Device device() const { return {isCuda() ? DeviceKind::Cuda : DeviceKind::Host, index_}; }
  /// Null unless it is a stream of the host.
  device::HostStream* host() const { return host_; }
  /// Of a stream of CUDA; also one of its default streams, of which null is one.
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

/// Owns an ordered queue of work. Work of one stream runs in the order in which it was enqueued;
/// work of different streams may run at the same time. Any thread may enqueue. A stream of a GPU
/// does not wait for the legacy default stream, nor that for it.
class Stream {
 public:
  explicit Stream(Device device = {});
  ~Stream();  ///< waits for everything enqueued; a failure not yet seen goes to the log
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// Enqueues a host function. It must not block for long and must not throw. That of a GPU's
  /// stream must not call CUDA either, nor destroy what does; in a capture it becomes a node of the
  /// graph, runs whenever that does, and lasts as long.
  void enqueue(std::function<void()> work);
  /// Returns once everything enqueued before this call is done; throws the first failure among it.
  /// InvalidUsage while the stream is being captured, which goes on.
  void synchronize();
  /// True when nothing is queued or running. Throws like synchronize().
  bool query();

  operator StreamRef() const;

 private:
  std::unique_ptr<device::AnyStream> stream_;
};

/// A point in a stream that other streams and the host can wait for. Any thread may call it; moving
/// and destroying it is for one thread that knows that no other does. An event of a GPU is recorded
/// in streams of that GPU and waited for by streams of any GPU; one of the host by the host's. One
/// that was recorded in a capture last is a place in a graph: to wait for it on the host, or to ask
/// it, is InvalidUsage until it is recorded anew.
class Event {
 public:
  Event();  ///< of the host
  explicit Event(Device device);
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  void record(StreamRef stream);  ///< marks what `stream` holds now; recording again moves the mark
  void wait(StreamRef stream);    ///< what is enqueued on `stream` from now on runs after the mark
  void synchronize();             ///< the caller waits; an event never recorded counts as reached
  bool query() const;

 private:
  std::unique_ptr<device::AnyEvent> event_;
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

/// Memory of a GPU (cudaMalloc), not initialized. What uses it must have ended when it is released.
/// Zero bytes give a Memory with a null pointer. Throws OutOfMemory naming the bytes, and
/// InvalidArgument for the host.
Memory allocateOn(Device device, size_t bytes);

/// Page-locked memory of the host, which every GPU can address under the same pointer, not
/// initialized. Otherwise as allocateOn().
Memory allocatePinned(size_t bytes);

/// Bytes of any memory of the host or of a GPU, and where they go, which is such memory too. The
/// two do not overlap.
struct CopyArgs {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};
/// Copies behind what `stream` holds; both sides must last until the stream has done it. Without a
/// stream it returns when they have been copied, for which it waits for the legacy default stream
/// of the current device, and for such copies of other threads, but for no other stream of the
/// program. A stream of the host copies the host's memory.
void copy(const CopyArgs& args, StreamRef stream = {});

}  // namespace tutti
