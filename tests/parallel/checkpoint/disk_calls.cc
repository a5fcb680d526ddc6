#include "tests/parallel/checkpoint/disk_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <string>

namespace tutti::tests {
namespace {

DiskCalls* current = nullptr;

std::filesystem::path pathOf(int fd) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
}

/// Whether the call is to be made; errno says why not.
bool begins(DiskCall::Kind kind, const std::filesystem::path& path) {
  const int error = current ? current->begin(kind, path) : 0;
  if (error != 0) errno = error;
  return error == 0;
}

}  // namespace

DiskCalls::DiskCalls() { current = this; }
DiskCalls::~DiskCalls() { current = nullptr; }

size_t DiskCalls::count() const {
  const std::scoped_lock lock(mutex_);
  return calls_.size();
}

void DiskCalls::hold() {
  const std::scoped_lock lock(mutex_);
  held_ = true;
}

void DiskCalls::release() {
  const std::scoped_lock lock(mutex_);
  held_ = false;
  released_.notify_all();
}

void DiskCalls::failAt(size_t number, int error) {
  const std::scoped_lock lock(mutex_);
  failing_ = number;
  error_ = error;
}

int DiskCalls::begin(DiskCall::Kind kind, const std::filesystem::path& path) {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [&] { return !held_; });
  calls_.push_back({kind, path});
  if (calls_.size() - 1 == failing_) return error_;
  if (kind != DiskCall::Write || mostBytes_ == SIZE_MAX) return 0;
  interrupted_ = !interrupted_;
  return interrupted_ ? EINTR : 0;
}

extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_mkdir(const char* path, mode_t mode);
ssize_t __real_pwrite(int fd, const void* from, size_t bytes, off_t offset);
int __real_fsync(int fd);
int __real_rename(const char* from, const char* to);
int __real_renameat2(int fromFolder, const char* from, int toFolder, const char* to,
                     unsigned flags);

int __wrap_open(const char* path, int flags, ...) {
  if ((flags & O_CREAT) == 0) return __real_open(path, flags);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return begins(DiskCall::CreateFile, path) ? __real_open(path, flags, mode) : -1;
}

int __wrap_mkdir(const char* path, mode_t mode) {
  return begins(DiskCall::CreateFolder, path) ? __real_mkdir(path, mode) : -1;
}

ssize_t __wrap_pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  if (!begins(DiskCall::Write, pathOf(fd))) return -1;
  return __real_pwrite(fd, from, current ? current->writable(bytes) : bytes, offset);
}

int __wrap_fsync(int fd) { return begins(DiskCall::Sync, pathOf(fd)) ? __real_fsync(fd) : -1; }

int __wrap_rename(const char* from, const char* to) {
  return begins(DiskCall::Rename, from) ? __real_rename(from, to) : -1;
}

int __wrap_renameat2(int fromFolder, const char* from, int toFolder, const char* to,
                     unsigned flags) {
  return begins(DiskCall::Rename, from) ? __real_renameat2(fromFolder, from, toFolder, to, flags)
                                        : -1;
}

}  // extern "C"

}  // namespace tutti::tests
