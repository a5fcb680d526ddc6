#include "src/launch/line_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "src/base/check.h"

namespace tutti::launcher {
namespace {

bool sameFile(int first, int second) {
  struct stat a = {}, b = {};
  if (fstat(first, &a) != 0 || fstat(second, &b) != 0) return false;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool writable(int fd) {
  pollfd entry = {.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&entry, 1, 0) == 1;
}

/// How much to write at once: whole lines where they fit into what a writable pipe takes without
/// blocking.
size_t pieceBytes(const std::string& text) {
  if (text.size() <= PIPE_BUF) return text.size();
  const size_t newline = text.rfind('\n', PIPE_BUF - 1);
  return newline == std::string::npos ? PIPE_BUF : newline + 1;
}

}  // namespace

void Tail::add(std::string_view line) {
  lines_.emplace_back(line.substr(0, kTailLineBytes));
  if (lines_.size() > kTailLines) lines_.pop_front();
}

Outlets::Outlets(int out, int err)
    : streams_{{out, O_WRONLY}, {err, O_WRONLY}}, sameTarget_(sameFile(out, err)) {}

bool Outlets::wants(int which) const {
  return !pending_[which].empty() && !(sameTarget_ && midLine_[1 - which]);
}

bool Outlets::flushSome(int which) {
  std::string& text = pending_[which];
  if (broken_[which]) text.clear();
  if (!wants(which) || !writable(fd(which))) return false;
  const ssize_t written = streams_[which].write(text.data(), pieceBytes(text));
  if (written < 0) {
    if (errno == EINTR || errno == EAGAIN) return false;
    broken_[which] = true;
    midLine_[which] = false;
    readerGone_ = readerGone_ || errno == EPIPE;
    // Ranks whose reader has gone are told by their own writes, as the launcher is.
    if (errno != EPIPE && errno != EBADF) errors_[which] = errno;
    return false;
  }
  if (written == 0) return false;
  taken_ += static_cast<uint64_t>(written);
  midLine_[which] = text[written - 1] != '\n';
  text.erase(0, written);
  return true;
}

void Outlets::flush() {
  bool more = true;
  while (more) {
    more = flushSome(0);
    more = flushSome(1) || more;
  }
}

LineRelay::LineRelay(base::FileDescriptor source, int rank, int which, Outlets& outlets, Tail& tail)
    : source_(std::move(source)),
      prefix_(base::message("[", rank, "] ")),
      continuation_(base::message("[", rank, "]+")),
      which_(which),
      outlets_(outlets),
      tail_(tail) {
  TUTTI_SYSCALL(fcntl(source_.get(), F_SETFL, O_NONBLOCK));
}

void LineRelay::emit(std::string_view line, bool complete) {
  outlets_.add(which_, base::message(continuing_ ? continuation_ : prefix_, line, "\n"));
  if (!continuing_) tail_.add(line);
  continuing_ = !complete;
}

void LineRelay::take(std::string_view text) {
  while (!text.empty()) {
    // A line of exactly the limit is whole: it is broken only when more than its newline follows.
    if (partial_.size() == kMaxLineBytes && text.front() != '\n') {
      emit(partial_, false);
      partial_.clear();
    }
    const size_t newline = text.substr(0, kMaxLineBytes + 1 - partial_.size()).find('\n');
    const bool complete = newline != std::string_view::npos;
    const size_t bytes =
        complete ? newline : std::min(kMaxLineBytes - partial_.size(), text.size());
    partial_ += text.substr(0, bytes);
    text.remove_prefix(bytes);
    if (!complete) continue;
    emit(partial_, true);
    partial_.clear();
    text.remove_prefix(1);
  }
}

void LineRelay::read() {
  std::array<char, 64 * 1024> buffer;
  const ssize_t bytes = ::read(source_.get(), buffer.data(), buffer.size());
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes > 0) take({buffer.data(), static_cast<size_t>(bytes)});
  // Ranks learn by their own writes that an output takes no more; of what they said last, the tail
  // knows.
  if (bytes > 0 && !outlets_.broken(which_)) return;
  finish();
}

void LineRelay::finish() {
  if (!partial_.empty()) emit(partial_, true);
  partial_.clear();
  source_.reset();
}

}  // namespace tutti::launcher
