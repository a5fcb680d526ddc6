#include "src/launch/input_relay.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/base/check.h"
#include "src/base/pipe.h"

namespace tutti::launcher {

InputRelay::InputRelay() : terminal_(STDIN_FILENO, O_RDONLY) {
  if (!isatty(STDIN_FILENO)) return;
  base::Pipe pipe = base::makePipe();
  readEnd_ = std::move(pipe.readEnd);
  writeEnd_ = std::move(pipe.writeEnd);
  TUTTI_SYSCALL(fcntl(writeEnd_.get(), F_SETFL, O_NONBLOCK));  // of this end alone
}

bool InputRelay::ready() const {
  if (!writeEnd_ || tcgetpgrp(STDIN_FILENO) != getpgrp()) return false;
  pollfd room = {.fd = writeEnd_.get(), .events = POLLOUT, .revents = 0};
  return poll(&room, 1, 0) == 1;
}

void InputRelay::pass() {
  char buffer[PIPE_BUF];  // what a pipe with room takes at once
  const ssize_t bytes = terminal_.read(buffer, sizeof buffer);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // Nothing more comes, or rank 0 reads no more.
  if (bytes <= 0 || write(writeEnd_.get(), buffer, bytes) != bytes) writeEnd_.reset();
}

}  // namespace tutti::launcher
