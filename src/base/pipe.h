#pragma once

// A pipe as two owned descriptors, which exec closes.

#include <fcntl.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::base {

struct Pipe {
  FileDescriptor readEnd, writeEnd;
};

/// `flags` may be O_NONBLOCK. Throws System.
inline Pipe makePipe(int flags = 0) {
  int ends[2];
  TUTTI_SYSCALL(::pipe2(ends, O_CLOEXEC | flags));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace tutti::base
