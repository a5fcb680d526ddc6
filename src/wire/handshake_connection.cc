#include "src/wire/handshake_connection.h"

#include <sys/socket.h>

#include <array>

namespace tutti::wire {

void PollSet::clear() {
  polled_.clear();
  index_.clear();
}

void PollSet::add(int fd, short events) {
  index_[fd] = polled_.size();
  polled_.push_back({.fd = fd, .events = events, .revents = 0});
}

void PollSet::wait(int timeoutMs) {
  const int count = ::poll(polled_.data(), polled_.size(), timeoutMs);
  if (count < 0 && errno != EINTR) base::failSyscall("poll", errno, "while connections are made");
}

short PollSet::happened(int fd) const {
  const auto found = index_.find(fd);
  return found == index_.end() ? short{0} : polled_[found->second].revents;
}

HandshakeConnection::HandshakeConnection(base::FileDescriptor socket, Handshake handshake)
    : socket_(std::move(socket)), handshake_(std::move(handshake)), out_(handshake_.start()) {}

HandshakeConnection::~HandshakeConnection() {
  // Not only close: a forked child of this process may hold a copy of the descriptor.
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

void HandshakeConnection::watch(PollSet& set) const {
  set.add(fd(), static_cast<short>((ended_ ? 0 : POLLIN) | (out_.empty() ? 0 : POLLOUT)));
}

void HandshakeConnection::advance(const PollSet& set) {
  const short happened = set.happened(fd());
  if (happened == 0) return;
  if (!out_.empty()) flush();
  if (happened & (POLLIN | POLLHUP | POLLERR)) read();
  if (!out_.empty()) flush();
}

void HandshakeConnection::read() {
  while (!handshake_.done()) {
    const size_t wanted = handshake_.wantedBytes() - in_.size();
    std::array<std::byte, 256> buffer;
    TUTTI_ASSERT(wanted <= buffer.size(), wanted);
    const size_t count = receive(std::span(buffer).first(wanted));
    if (count == 0) return;
    in_.insert(in_.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(count));
    if (count < wanted) continue;
    const base::Bytes answer = handshake_.receive(in_);
    in_.clear();
    out_.insert(out_.end(), answer.begin(), answer.end());
  }
}

size_t HandshakeConnection::receive(std::span<std::byte> into) {
  if (ended_) return 0;
  ssize_t count = 0;
  do {
    count = ::recv(fd(), into.data(), into.size(), MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count > 0) return static_cast<size_t>(count);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (count < 0 && error_ == 0) error_ = errno;
  ended_ = true;  // closed, reset, or never connected
  return 0;
}

void HandshakeConnection::send(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  flush();
}

void HandshakeConnection::flush() {
  while (!out_.empty()) {
    const ssize_t count = ::send(fd(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) return;
    if (count < 0) {
      error_ = errno;  // the kernel tells it once
      out_.clear();    // nobody reads it; reading says that the other end is gone
      return;
    }
    out_.erase(out_.begin(), out_.begin() + count);
  }
}

base::FileDescriptor HandshakeConnection::release() {
  TUTTI_ASSERT(authenticated() && flushed(), fd());
  return std::move(socket_);
}

}  // namespace tutti::wire
