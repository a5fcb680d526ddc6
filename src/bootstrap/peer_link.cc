#include "src/bootstrap/peer_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <array>
#include <cstring>

#include "src/wire/address.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace tutti::bootstrap {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(sizeof(int) * kMaxDescriptors);

bool ended(int process) {
  pollfd polled{.fd = process, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

/// The kernel's own answer where it has one (Linux 6.5). Else by number: a number can pass to
/// another process, but not while the connection of the first is still open.
base::FileDescriptor openProcess(int socket) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
    return base::FileDescriptor(fd);
  const int64_t pid = wire::peerProcess(socket).pid;
  if (pid <= 0) return {};
  base::FileDescriptor opened(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd polled{.fd = socket, .events = POLLRDHUP, .revents = 0};
  const bool open = ::poll(&polled, 1, 0) == 0;
  return open ? std::move(opened) : base::FileDescriptor();
}

}  // namespace

PeerLink::PeerLink(PeerSocket socket)
    : socket_(std::move(socket.socket)),
      process_(openProcess(socket_.get())),
      reader_(socket.receiving),
      writer_(socket.sending) {}

bool PeerLink::queue(FrameKind kind, ControlMessage message) {
  const FrameHeader header{.kind = kind,
                           .type = message.type,
                           .channel = message.channel,
                           .descriptors = static_cast<uint32_t>(message.descriptors.size())};
  Outgoing out{.header = header, .message = std::move(message)};
  out.counted = kSealedHeaderBytes + out.message.payload.size();
  std::lock_guard lock(mutex_);
  if (closed_) return true;  // dropped
  if (queuedBytes_ + out.counted > kMaxQueuedBytes) return false;
  queuedBytes_ += out.counted;
  queue_.push_back(std::move(out));
  return true;
}

bool PeerLink::sendsWaiting() {
  std::lock_guard lock(mutex_);
  return !queue_.empty();
}

PeerLink::Flow PeerLink::flush() {
  std::lock_guard lock(mutex_);
  while (!queue_.empty()) {
    Outgoing& out = queue_.front();
    if (out.sealed.empty()) out.sealed = writer_.seal(out.header, out.message.payload);
    const ssize_t count = sendSome(out);
    if (count < 0) {
      if (errno == EINTR) continue;
      // ETOOMANYREFS: too many descriptors are under way; some will arrive.
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS) return Flow::Open;
      return endedBy(errno);
    }
    out.sent += static_cast<size_t>(count);
    out.message.descriptors.clear();  // they went with the first byte
    if (out.sent < out.bytes()) continue;
    queuedBytes_ -= out.counted;
    queue_.pop_front();
  }
  return Flow::Open;
}

PeerLink::Flow PeerLink::endedBy(int error) {
  if (error_ == 0) error_ = error;
  return Flow::Ended;
}

std::string PeerLink::reason() const {
  const bool silent = error_ == ETIMEDOUT || error_ == EHOSTUNREACH || error_ == ENETUNREACH;
  if (silent) return base::message("its host does not answer (", std::strerror(error_), ")");
  return "closed its connection without leaving";
}

ssize_t PeerLink::sendSome(Outgoing& out) {
  const size_t inHeader = std::min(out.sent, out.sealed.size());
  const size_t inPayload = out.sent - inHeader;
  std::array<iovec, 2> parts{
      iovec{out.sealed.data() + inHeader, out.sealed.size() - inHeader},
      iovec{out.message.payload.data() + inPayload, out.message.payload.size() - inPayload}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  if (const size_t count = out.message.descriptors.size(); count > 0 && out.sent == 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; ++i) {
      const int fd = out.message.descriptors[i].get();
      std::memcpy(CMSG_DATA(head) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  return ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

PeerLink::Flow PeerLink::read(size_t limitBytes, const std::function<void(Frame)>& take) {
  std::array<std::byte, 65536> buffer;
  for (size_t total = 0; total < limitBytes;) {
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Flow::Open;
    if (count <= 0) return endedBy(count < 0 ? errno : 0);
    takeDescriptors(message);
    reader_.feed(std::span(buffer).first(static_cast<size_t>(count)));
    while (std::optional<Frame> frame = reader_.next()) take(std::move(*frame));
    total += static_cast<size_t>(count);
  }
  return Flow::Open;
}

void PeerLink::takeDescriptors(msghdr& message) {
  std::vector<base::FileDescriptor> received;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      received.emplace_back(fd);
    }
  }
  if (message.msg_flags & MSG_CTRUNC)
    base::fail(ErrorCode::System,
               "sent descriptors that this process could not receive: "
               "RLIMIT_NOFILE is reached");
  for (base::FileDescriptor& fd : received) reader_.feed(std::move(fd));
}

bool PeerLink::processEnded() const { return process_ && ended(process_.get()); }

bool PeerLink::processRuns() const { return process_ && !ended(process_.get()); }

void PeerLink::close() {
  // Not only close: a forked child of this process may hold a copy of the descriptor.
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
  std::lock_guard lock(mutex_);
  closed_ = true;
  queue_.clear();
  queuedBytes_ = 0;
}

}  // namespace tutti::bootstrap
