#include "src/launch/standard_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/check.h"

namespace tutti::launcher {

StandardStream::StandardStream(int fd, int access) : fd_(fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return;  // closed: each call says so
  const bool pipe = S_ISFIFO(status.st_mode) || ::isatty(fd) == 1;
  waits_ = pipe || S_ISSOCK(status.st_mode);
  const int flags = ::fcntl(fd, F_GETFL);
  const bool opensSo = (flags & O_ACCMODE) == access || (flags & O_ACCMODE) == O_RDWR;
  if (!pipe || !opensSo) return;
  const std::string path = base::message("/proc/self/fd/", fd);
  own_ = base::FileDescriptor(::open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

template <class Call>
ssize_t StandardStream::unblocked(const Call& call) const {
  if (own_ || !waits_) return call(fd());
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_NONBLOCK) < 0) return -1;
  const ssize_t result = call(fd_);
  const int error = errno;
  if (::fcntl(fd_, F_SETFL, flags) < 0) return -1;
  errno = error;
  return result;
}

ssize_t StandardStream::read(void* to, size_t bytes) const {
  return unblocked([&](int fd) { return ::read(fd, to, bytes); });
}

ssize_t StandardStream::write(const void* from, size_t bytes) const {
  return unblocked([&](int fd) { return ::write(fd, from, bytes); });
}

}  // namespace tutti::launcher
