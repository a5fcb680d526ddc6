#include "transports/tcp/frame_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace tutti::transports::tcp {
namespace {

// Sealed at once: as much as a core's cache holds, so that the kernel copies from there.
constexpr size_t kSealAhead = 4 * kSealedPiece;

// The kernel takes so little from one place sooner than from two.
constexpr size_t kTogether = 256;

/// Bytes sent; 0 where the socket is full, -1 where it broke.
ssize_t sendSome(int socket, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  std::array<std::byte, kTogether> together;
  if (bytes <= kTogether) {
    size_t at = 0;
    for (const iovec& part : parts) {
      std::memcpy(together.data() + at, part.iov_base, part.iov_len);
      at += part.iov_len;
    }
  }
  ssize_t count = 0;
  do {
    count = bytes <= kTogether ? ::send(socket, together.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                               : ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : -1;
}

}  // namespace

void FrameWriter::reset(std::optional<wire::Cipher> cipher) {
  count_ = first_ = offset_ = 0;
  sealedSent_ = sealedBytes_ = 0;
  cipher_ = std::move(cipher);
}

void FrameWriter::add(const TcpFrame& frame, const std::byte* payload) {
  TUTTI_ASSERT(hasRoom(), count_);
  items_[count_++] = {frame, payload};
}

FrameWriter::Outcome FrameWriter::write(int socket) {
  const Outcome outcome = cipher_ ? writeSealed(socket) : writePlain(socket);
  if (outcome == Outcome::Done) count_ = first_ = offset_ = 0;
  return outcome;
}

FrameWriter::Outcome FrameWriter::writePlain(int socket) {
  while (first_ < count_) {
    std::array<iovec, 2 * kFrames> parts;
    size_t used = 0;
    size_t skip = offset_;
    for (size_t i = first_; i < count_; ++i) {
      Item& item = items_[i];
      const size_t inHeader = std::min(skip, sizeof item.frame), inPayload = skip - inHeader;
      if (inHeader < sizeof item.frame)
        parts[used++] = {reinterpret_cast<std::byte*>(&item.frame) + inHeader,
                         sizeof item.frame - inHeader};
      if (inPayload < item.frame.bytes)
        parts[used++] = {const_cast<std::byte*>(item.payload) + inPayload,
                         item.frame.bytes - inPayload};
      skip = 0;
    }
    const ssize_t count = sendSome(socket, std::span(parts).first(used));
    if (count <= 0) return count == 0 ? Outcome::Full : Outcome::Broken;
    offset_ += static_cast<size_t>(count);
    while (first_ < count_ && offset_ >= items_[first_].bytes())
      offset_ -= items_[first_++].bytes();
  }
  return Outcome::Done;
}

FrameWriter::Outcome FrameWriter::writeSealed(int socket) {
  while (true) {
    if (sealedSent_ == sealedBytes_) sealMore();
    if (sealedBytes_ == 0) return Outcome::Done;
    iovec part{sealed_.data() + sealedSent_, sealedBytes_ - sealedSent_};
    const ssize_t count = sendSome(socket, std::span(&part, 1));
    if (count <= 0) return count == 0 ? Outcome::Full : Outcome::Broken;
    sealedSent_ += static_cast<size_t>(count);
  }
}

void FrameWriter::sealMore() {
  sealedSent_ = sealedBytes_ = 0;
  if (first_ < count_ && sealed_.empty())
    sealed_.resize(kSealAhead + kSealedPiece + kFrames * (sizeof(TcpFrame) + 2 * wire::kSealBytes));
  while (first_ < count_ && sealedBytes_ < kSealAhead) {
    const Item& item = items_[first_];
    std::span<const std::byte> text = std::as_bytes(std::span(&item.frame, 1));
    if (offset_ > 0) {
      const size_t done = offset_ - sizeof item.frame;
      text = {item.payload + done, std::min(kSealedPiece, item.frame.bytes - done)};
    }
    cipher_->seal(text, sealed_.data() + sealedBytes_);
    sealedBytes_ += text.size() + wire::kSealBytes;
    offset_ += text.size();
    if (offset_ < item.bytes()) continue;
    ++first_;
    offset_ = 0;
  }
}

}  // namespace tutti::transports::tcp
