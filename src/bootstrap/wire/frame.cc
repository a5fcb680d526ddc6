#include "src/bootstrap/wire/frame.h"

#include <cstring>

namespace tutti::bootstrap {
namespace {

constexpr size_t kKeptCapacity = size_t{1} << 20;  // of the buffer, between frames

}  // namespace

void FrameReader::feed(std::span<const std::byte> bytes) {
  if (taken_ > 0) {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(taken_));
    taken_ = 0;
  }
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

void FrameReader::feed(base::FileDescriptor descriptor) {
  // Descriptors come with their frame's first byte, so never more than two frames' wait.
  if (descriptors_.size() >= 2 * kMaxDescriptors)
    base::fail(ErrorCode::Refused, "sent descriptors that no frame names");
  descriptors_.push_back(std::move(descriptor));
}

void FrameReader::readHeader() {
  FrameHeader header;
  std::memcpy(&header, pending_.data() + taken_, sizeof header);
  if (header.magic != FrameHeader::kMagic ||
      (header.kind != FrameKind::Message && header.kind != FrameKind::Leave))
    base::fail(ErrorCode::Refused, "sent something that is not a frame");
  if (header.payloadBytes > kMaxPayloadBytes)
    base::fail(ErrorCode::Refused, "announced a payload of ", header.payloadBytes,
               " bytes; the limit is ", kMaxPayloadBytes);
  if (header.descriptors > kMaxDescriptors)
    base::fail(ErrorCode::Refused, "announced ", header.descriptors, " descriptors; the limit is ",
               kMaxDescriptors);
  if (header.descriptors > descriptors_.size())
    base::fail(ErrorCode::Refused, "announced ", header.descriptors, " descriptors, and sent ",
               descriptors_.size());
  taken_ += sizeof header;
  header_ = header;
}

std::optional<Frame> FrameReader::next() {
  if (!header_) {
    if (pending_.size() - taken_ < sizeof(FrameHeader)) return std::nullopt;
    readHeader();
  }
  const size_t bytes = header_->payloadBytes;
  if (pending_.size() - taken_ < bytes) return std::nullopt;
  Frame frame{.kind = header_->kind,
              .message = {.channel = header_->channel, .type = header_->type}};
  const auto first = pending_.begin() + static_cast<ptrdiff_t>(taken_);
  frame.message.payload.assign(first, first + static_cast<ptrdiff_t>(bytes));
  taken_ += bytes;
  if (taken_ == pending_.size()) {
    pending_.clear();
    taken_ = 0;
    if (pending_.capacity() > kKeptCapacity) base::Bytes().swap(pending_);
  }
  for (uint32_t i = 0; i < header_->descriptors; ++i) {
    frame.message.descriptors.push_back(std::move(descriptors_.front()));
    descriptors_.pop_front();
  }
  header_.reset();
  return frame;
}

}  // namespace tutti::bootstrap
