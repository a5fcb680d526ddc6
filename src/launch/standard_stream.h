#pragma once

// One of this process's standard streams, used without waiting for whoever is at its other end. A
// pipe and a terminal that poll() calls ready may still block a write: another writer may be
// faster, and a terminal takes a part.

#include <sys/types.h>

#include "src/base/file_descriptor.h"

namespace tutti::launcher {

class StandardStream {
 public:
  /// Borrows `fd`, which others share: its flags stay as they are, but for the moment of a call
  /// where it cannot be opened once more, as after su. `access` is O_RDONLY or O_WRONLY.
  StandardStream(int fd, int access);

  int fd() const { return own_ ? own_.get() : fd_; }  ///< for poll()
  /// As read() and write() of a descriptor with O_NONBLOCK.
  ssize_t read(void* to, size_t bytes) const;
  ssize_t write(const void* from, size_t bytes) const;

 private:
  template <class Call>
  ssize_t unblocked(const Call& call) const;

  int fd_;
  base::FileDescriptor own_;  ///< the same pipe or terminal, with flags of its own
  bool waits_ = false;        ///< a pipe, terminal or socket; files do not wait for anybody
};

}  // namespace tutti::launcher
