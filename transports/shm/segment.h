#pragma once

// A piece of memory that processes of one host share: a memfd, which has no name that could be left
// behind, and its mapping. All pages are had when it is made and its size is sealed, so that
// touching it later can neither fail nor raise SIGBUS, whatever another process does or whether it
// still lives.

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/file_descriptor.h"

namespace tutti::transports::shm {

class Segment {
 public:
  Segment() = default;
  ~Segment() { unmap(); }
  Segment(Segment&& other) noexcept { swap(other); }
  Segment& operator=(Segment&& other) noexcept {
    Segment(std::move(other)).swap(*this);
    return *this;
  }

  /// Zeroed memory, with its pages from the caller's NUMA node and mapped. Throws OutOfMemory that
  /// names `bytes`, `purpose` and a remedy when memory or a descriptor cannot be had.
  static Segment create(uint64_t bytes, const std::string& purpose);

  /// Which part of a segment to map; `offset` is a multiple of the page.
  struct Part {
    uint64_t offset;
    uint64_t bytes;
  };
  /// Maps another process's segment and lets go of the descriptor. Throws Refused when it is not a
  /// sealed memfd of exactly `expectedBytes`, OutOfMemory when it cannot be mapped.
  static Segment open(base::FileDescriptor fd, uint64_t expectedBytes);
  static Segment open(base::FileDescriptor fd, uint64_t expectedBytes, Part part);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  /// The creator's memfd; -1 for a segment that was opened.
  int descriptor() const { return fd_.get(); }
  /// Another descriptor of it, to be sent to a peer. Only for the creator.
  base::FileDescriptor duplicate() const;

  static uint64_t pageBytes();

 private:
  void map(int fd, Part part, const std::string& purpose);
  void unmap();
  void swap(Segment& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  base::FileDescriptor fd_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tutti::transports::shm
