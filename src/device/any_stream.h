#pragma once

// What is behind Stream and Event: one implementation for each kind of device.

#include <functional>
#include <memory>

#include <tutti/device.h>

namespace tutti::device {

/// Its destructor waits, and logs a failure that nobody has seen.
class AnyStream {
 public:
  virtual ~AnyStream() = default;
  virtual void enqueue(std::function<void()> work) = 0;
  virtual void synchronize() = 0;
  virtual bool query() = 0;
  virtual StreamRef ref() const = 0;

  /// A stream of CUDA on the device of that index.
  static StreamRef cudaRef(CUstream_st* stream, int index) { return {stream, index}; }
};

class AnyEvent {
 public:
  virtual ~AnyEvent() = default;
  virtual void record(StreamRef stream) = 0;
  virtual void wait(StreamRef stream) = 0;
  virtual void synchronize() = 0;
  virtual bool query() const = 0;
};

std::unique_ptr<AnyStream> makeHostStream();
std::unique_ptr<AnyEvent> makeHostEvent();

}  // namespace tutti::device
