#include "src/launch/input_relay.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <utility>

#include "src/base/pipe.h"

namespace tutti::launcher {

InputRelay::InputRelay() {
  if (!isatty(STDIN_FILENO)) return;
  base::Pipe pipe = base::makePipe();
  readEnd_ = std::move(pipe.readEnd);
  writeEnd_ = std::move(pipe.writeEnd);
}

bool InputRelay::ready() const {
  if (!writeEnd_ || tcgetpgrp(STDIN_FILENO) != getpgrp()) return false;
  pollfd room = {.fd = writeEnd_.get(), .events = POLLOUT, .revents = 0};
  return poll(&room, 1, 0) == 1;
}

void InputRelay::pass() {
  char buffer[PIPE_BUF];  // what a pipe with room takes without blocking
  const ssize_t bytes = read(STDIN_FILENO, buffer, sizeof buffer);
  if (bytes < 0) return;
  if (bytes == 0 || write(writeEnd_.get(), buffer, bytes) < 0) writeEnd_.reset();
}

}  // namespace tutti::launcher
