// Frames of a stream socket, put together from whatever parts arrive.

#include "src/bootstrap/wire/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tutti::bootstrap {
namespace {

base::Bytes frameOf(FrameHeader header, const std::string& payload) {
  header.payloadBytes = payload.size();
  base::Bytes bytes = base::bytesOf(header);
  for (const char c : payload) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

std::string textOf(const Frame& frame) {
  const auto& payload = frame.message.payload;
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

base::FileDescriptor someDescriptor() {
  return base::FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

TEST(FrameReader, GivesEachFrameOnceItIsWhole) {
  base::Bytes bytes = frameOf({.channel = 7, .type = 3}, "first");
  const base::Bytes empty = frameOf({.kind = FrameKind::Leave}, "");
  const base::Bytes last = frameOf({.channel = 8}, std::string(1000, 'x'));
  bytes.insert(bytes.end(), empty.begin(), empty.end());
  bytes.insert(bytes.end(), last.begin(), last.end());
  for (const size_t part : {size_t{1}, size_t{31}, size_t{33}, bytes.size()}) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (size_t at = 0; at < bytes.size(); at += part) {
      reader.feed(std::span(bytes).subspan(at, std::min(part, bytes.size() - at)));
      while (auto frame = reader.next()) frames.push_back(std::move(*frame));
    }
    ASSERT_EQ(frames.size(), 3U) << "in parts of " << part;
    EXPECT_EQ(frames[0].message.channel, 7U);
    EXPECT_EQ(frames[0].message.type, 3U);
    EXPECT_EQ(textOf(frames[0]), "first");
    EXPECT_EQ(frames[1].kind, FrameKind::Leave);
    EXPECT_EQ(textOf(frames[1]), "");
    EXPECT_EQ(textOf(frames[2]), std::string(1000, 'x'));
    EXPECT_FALSE(reader.next());
  }
}

TEST(FrameReader, GivesDescriptorsToTheFramesThatNameThem) {
  FrameReader reader;
  std::vector<int> sent;
  for (int i = 0; i < 3; ++i) {
    base::FileDescriptor descriptor = someDescriptor();
    sent.push_back(descriptor.get());
    reader.feed(std::move(descriptor));
  }
  reader.feed(frameOf({.descriptors = 1}, ""));
  reader.feed(frameOf({.descriptors = 2}, ""));
  const auto first = reader.next(), second = reader.next();
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->message.descriptors.size(), 1U);
  ASSERT_EQ(second->message.descriptors.size(), 2U);
  EXPECT_EQ(first->message.descriptors[0].get(), sent[0]);
  EXPECT_EQ(second->message.descriptors[0].get(), sent[1]);
  EXPECT_EQ(second->message.descriptors[1].get(), sent[2]);
}

std::string refusalOf(const FrameHeader& header) {
  FrameReader reader;
  reader.feed(base::bytesOf(header));
  try {
    reader.next();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    return error.what();
  }
  return "accepted";
}

TEST(FrameReader, RefusesWhatBreaksTheProtocolBeforeItHasMemoryForIt) {
  EXPECT_EQ(refusalOf({.magic = 1}), "sent something that is not a frame");
  EXPECT_EQ(refusalOf({.kind = static_cast<FrameKind>(0)}), "sent something that is not a frame");
  EXPECT_EQ(refusalOf({.payloadBytes = kMaxPayloadBytes}), "accepted");
  EXPECT_EQ(refusalOf({.payloadBytes = kMaxPayloadBytes + 1}),
            "announced a payload of 16777217 bytes; the limit is 16777216");
  EXPECT_EQ(refusalOf({.descriptors = 9}), "announced 9 descriptors; the limit is 8");
  EXPECT_EQ(refusalOf({.descriptors = 1}), "announced 1 descriptors, and sent 0");
}

TEST(FrameReader, RefusesDescriptorsThatNoFrameNames) {
  FrameReader reader;
  for (size_t i = 0; i < 2 * kMaxDescriptors; ++i) reader.feed(someDescriptor());
  EXPECT_THROW(reader.feed(someDescriptor()), Error);
}

}  // namespace
}  // namespace tutti::bootstrap
