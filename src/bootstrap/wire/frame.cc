#include "src/bootstrap/wire/frame.h"

#include <cstring>

namespace tutti::bootstrap {
namespace {

constexpr size_t kKeptCapacity = size_t{1} << 20;  // of the buffer, between frames
constexpr wire::CipherKind kCipher = wire::CipherKind::ChaCha20Poly1305;  // on every processor

}  // namespace

SealedFrameWriter::SealedFrameWriter(const wire::Key& key) : cipher_(kCipher, key) {}

base::Bytes SealedFrameWriter::seal(FrameHeader header, base::Bytes& payload) {
  header.payloadBytes = payload.size();
  base::Bytes sealed(kSealedHeaderBytes);
  cipher_.seal(std::as_bytes(std::span(&header, 1)), sealed.data());
  if (payload.empty()) return sealed;
  payload.resize(payload.size() + wire::kSealBytes);
  cipher_.seal(std::span(payload).first(header.payloadBytes), payload.data());
  return sealed;
}

SealedFrameReader::SealedFrameReader(const wire::Key& key, size_t limitBytes)
    : cipher_(kCipher, key), limitBytes_(limitBytes) {}

void SealedFrameReader::feed(std::span<const std::byte> bytes) {
  if (taken_ > 0) {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(taken_));
    taken_ = 0;
  }
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

void SealedFrameReader::feed(base::FileDescriptor descriptor) {
  // Descriptors come with their frame's first byte, so never more than two frames' wait.
  if (descriptors_.size() >= 2 * kMaxDescriptors)
    base::fail(ErrorCode::Refused, "sent descriptors that no frame names");
  descriptors_.push_back(std::move(descriptor));
}

/// So many bytes of text, where they lie, and whose seal lies behind them.
std::span<const std::byte> SealedFrameReader::open(size_t bytes) {
  const auto sealed = std::span(pending_).subspan(taken_, bytes + wire::kSealBytes);
  if (!cipher_.open(sealed, sealed.data()))
    base::fail(ErrorCode::Refused, "its control connection was tampered with or garbled");
  taken_ += sealed.size();
  return sealed.first(bytes);
}

void SealedFrameReader::readHeader() {
  FrameHeader header;
  std::memcpy(&header, open(sizeof header).data(), sizeof header);
  if (header.kind != FrameKind::Message && header.kind != FrameKind::Leave)
    base::fail(ErrorCode::Refused, "sent something that is not a frame");
  if (header.payloadBytes > limitBytes_)
    base::fail(ErrorCode::Refused, "announced a payload of ", header.payloadBytes,
               " bytes; the limit is ", limitBytes_);
  if (header.descriptors > kMaxDescriptors)
    base::fail(ErrorCode::Refused, "announced ", header.descriptors, " descriptors; the limit is ",
               kMaxDescriptors);
  if (header.descriptors > descriptors_.size())
    base::fail(ErrorCode::Refused, "announced ", header.descriptors, " descriptors, and sent ",
               descriptors_.size());
  header_ = header;
}

std::optional<Frame> SealedFrameReader::next() {
  if (!header_) {
    if (!has(kSealedHeaderBytes)) return std::nullopt;
    readHeader();
  }
  const size_t bytes = header_->payloadBytes;
  if (bytes > 0 && !has(bytes + wire::kSealBytes)) return std::nullopt;
  Frame frame{.kind = header_->kind,
              .message = {.channel = header_->channel, .type = header_->type}};
  if (bytes > 0) {
    const auto payload = open(bytes);
    frame.message.payload.assign(payload.begin(), payload.end());
  }
  giveRoom();
  for (uint32_t i = 0; i < header_->descriptors; ++i) {
    frame.message.descriptors.push_back(std::move(descriptors_.front()));
    descriptors_.pop_front();
  }
  header_.reset();
  return frame;
}

void SealedFrameReader::giveRoom() {
  if (taken_ < pending_.size()) return;
  pending_.clear();
  taken_ = 0;
  if (pending_.capacity() > kKeptCapacity) base::Bytes().swap(pending_);
}

}  // namespace tutti::bootstrap
