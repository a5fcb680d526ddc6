#pragma once

// The calls with which a program changes what is on a disk, seen and spoiled by a test. The linker
// leads them through disk_calls.cc (--wrap, in CMakeLists.txt).

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <vector>

namespace tutti::tests {

struct DiskCall {
  enum Kind { CreateFile, CreateFolder, Write, Sync, Rename } kind;
  std::filesystem::path path;  ///< of Rename: what is renamed
};

/// While it is there every call is recorded, of all threads. One at a time.
class DiskCalls {
 public:
  DiskCalls();
  ~DiskCalls();
  DiskCalls(const DiskCalls&) = delete;
  DiskCalls& operator=(const DiskCalls&) = delete;

  /// While no other thread makes any.
  const std::vector<DiskCall>& calls() const { return calls_; }
  size_t count() const;
  /// The call with this number, counted from 0, does nothing and fails with this errno.
  void failAt(size_t number, int error);
  /// From now on calls wait, until release().
  void hold();
  void release();
  /// A signal interrupts every second Write, and the others write no more than so many bytes.
  void writeAtMost(size_t bytes) { mostBytes_ = bytes; }

  /// For the functions that the linker calls: records it, and says how it is to end: 0, or an
  /// errno.
  int begin(DiskCall::Kind kind, const std::filesystem::path& path);
  /// How much of a Write of so many bytes is written.
  size_t writable(size_t bytes) const { return std::min(bytes, mostBytes_); }

 private:
  mutable std::mutex mutex_;
  std::condition_variable released_;
  bool held_ = false;
  std::vector<DiskCall> calls_;
  size_t failing_ = SIZE_MAX, mostBytes_ = SIZE_MAX;
  int error_ = 0;
  bool interrupted_ = false;
};

}  // namespace tutti::tests
