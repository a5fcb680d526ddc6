#include "transports/tcp/frame_reader.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace tutti::transports::tcp {
namespace {

// Plain: some hundred small frames, and little of a large one's payload, which is copied from here.
constexpr size_t kPlainBuffer = 4096;
constexpr size_t kSealedBuffer = 4 * (kSealedPiece + wire::kSealBytes);

ssize_t receiveSome(int socket, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &message, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  return count;
}

FrameReader::Outcome outcomeOf(ssize_t count) {
  using enum FrameReader::Outcome;
  if (count > 0) return Moved;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Nothing;
  if (count == 0) errno = 0;
  return Ended;
}

}  // namespace

void FrameReader::reset(std::optional<wire::Cipher> cipher) {
  begin_ = end_ = 0;
  inPayload_ = spoiled_ = false;
  cipher_ = std::move(cipher);
  buffer_.resize(cipher_ ? kSealedBuffer : kPlainBuffer);
}

FrameReader::Outcome FrameReader::read(int socket, size_t limitBytes) {
  return cipher_ ? readSealed(socket, limitBytes) : readPlain(socket, limitBytes);
}

// One call of the kernel takes the rest of a payload, and what lies behind it.
FrameReader::Outcome FrameReader::readPlain(int socket, size_t limitBytes) {
  Outcome result = Outcome::Nothing;
  for (size_t total = 0; total < limitBytes;) {
    compact();
    const size_t direct = inPayload_ ? left_ : 0, room = buffer_.size() - end_;
    iovec parts[2] = {{to_, direct}, {buffer_.data() + end_, room}};
    const std::span<iovec> used = direct > 0 ? std::span(parts) : std::span(parts).last(1);
    const ssize_t count = receiveSome(socket, used);
    if (outcomeOf(count) != Outcome::Moved)
      return outcomeOf(count) == Outcome::Ended ? Outcome::Ended : result;
    result = Outcome::Moved;
    const auto bytes = static_cast<size_t>(count), inDirect = std::min(bytes, direct);
    to_ += inDirect;
    left_ -= inDirect;
    end_ += bytes - inDirect;
    parse();
    if (bytes < direct + room) return result;  // that was all
    total += bytes;
  }
  return result;
}

FrameReader::Outcome FrameReader::readSealed(int socket, size_t limitBytes) {
  Outcome result = Outcome::Nothing;
  for (size_t total = 0; total < limitBytes;) {
    compact();
    const size_t room = buffer_.size() - end_;
    iovec part{buffer_.data() + end_, room};
    const ssize_t count = receiveSome(socket, std::span(&part, 1));
    if (outcomeOf(count) != Outcome::Moved)
      return outcomeOf(count) == Outcome::Ended ? Outcome::Ended : result;
    result = Outcome::Moved;
    end_ += static_cast<size_t>(count);
    parse();
    if (spoiled_) {
      errno = EBADMSG;
      return Outcome::Ended;
    }
    if (static_cast<size_t>(count) < room) return result;
    total += static_cast<size_t>(count);
  }
  return result;
}

void FrameReader::compact() {
  if (begin_ == 0) return;
  std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
  end_ -= begin_;
  begin_ = 0;
}

void FrameReader::parse() {
  while (cipher_ ? parseSealed() : parsePlain()) {
  }
}

bool FrameReader::startFrame(const TcpFrame& frame) {
  frame_ = frame;
  to_ = receiver_.begin(frame_);
  left_ = frame_.bytes;
  inPayload_ = true;
  return true;
}

// A payload without bytes is complete at once.
bool FrameReader::parsePlain() {
  if (inPayload_) {
    const size_t bytes = std::min(left_, buffered());
    if (bytes > 0) std::memcpy(to_, buffer_.data() + begin_, bytes);
    begin_ += bytes;
    to_ += bytes;
    left_ -= bytes;
    if (left_ > 0) return false;
    inPayload_ = false;
    receiver_.complete(frame_);
    return true;
  }
  TcpFrame frame;
  if (buffered() < sizeof frame) return false;
  std::memcpy(&frame, buffer_.data() + begin_, sizeof frame);
  begin_ += sizeof frame;
  return startFrame(frame);
}

bool FrameReader::parseSealed() {
  if (inPayload_ && left_ == 0) {
    inPayload_ = false;
    receiver_.complete(frame_);
    return true;
  }
  TcpFrame frame;
  const size_t text = inPayload_ ? std::min(left_, kSealedPiece) : sizeof frame;
  const size_t whole = text + wire::kSealBytes;
  if (buffered() < whole) return false;
  const std::span<const std::byte> sealed = std::span(buffer_).subspan(begin_, whole);
  std::byte* const out = inPayload_ ? to_ : reinterpret_cast<std::byte*>(&frame);
  if (!cipher_->open(sealed, out)) {
    spoiled_ = true;
    return false;
  }
  begin_ += whole;
  if (!inPayload_) return startFrame(frame);
  to_ += text;
  left_ -= text;
  return true;
}

}  // namespace tutti::transports::tcp
