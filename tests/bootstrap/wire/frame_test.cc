// Frames of a stream socket, put together from whatever parts arrive, and sealed: nothing can be
// read, changed, repeated, left out or reflected.

#include "src/bootstrap/wire/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tutti::bootstrap {
namespace {

constexpr const char* kTampered = "its control connection was tampered with or garbled";

base::FileDescriptor someDescriptor() {
  return base::FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

class Frames : public testing::Test {
 protected:
  static base::Bytes sealedBy(SealedFrameWriter& writer, const FrameHeader& header,
                              const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    base::Bytes payload(bytes.begin(), bytes.end());
    base::Bytes frame = writer.seal(header, payload);
    frame.insert(frame.end(), payload.begin(), payload.end());
    return frame;
  }
  base::Bytes seal(const std::string& text, const FrameHeader& header = {}) {
    return sealedBy(writer_, header, text);
  }
  static std::string textOf(const Frame& frame) {
    const auto& payload = frame.message.payload;
    return {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
  /// The next payload; "nothing", or the reason where it is refused.
  static std::string next(SealedFrameReader& reader) {
    try {
      const auto frame = reader.next();
      return frame ? textOf(*frame) : "nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Refused);
      return error.what();
    }
  }
  /// Of a new reader that is fed with `bytes`.
  std::string nextOf(const base::Bytes& bytes) const {
    SealedFrameReader reader(key_);
    reader.feed(bytes);
    return next(reader);
  }

  const wire::Key key_ = wire::randomBytes<32>();
  SealedFrameWriter writer_{key_};
  SealedFrameReader reader_{key_};
};

TEST_F(Frames, AreGivenOnceTheyAreWhole) {
  base::Bytes bytes = seal("first", {.type = 3, .channel = 7});
  const base::Bytes empty = seal("", {.kind = FrameKind::Leave});
  const base::Bytes last = seal(std::string(1000, 'x'), {.channel = 8});
  bytes.insert(bytes.end(), empty.begin(), empty.end());
  bytes.insert(bytes.end(), last.begin(), last.end());
  for (const size_t part : {size_t{1}, size_t{31}, size_t{49}, bytes.size()}) {
    SealedFrameReader reader(key_);
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

TEST_F(Frames, ShowNothingOfTheirText) {
  const base::Bytes frame = seal("a secret of thirty-two letters!!");
  const auto text = std::as_bytes(std::span("secret", 6));
  EXPECT_TRUE(std::ranges::search(frame, text).empty());
  EXPECT_NE(seal("the same"), seal("the same"));
}

TEST_F(Frames, GetTheDescriptorsThatTheyName) {
  std::vector<int> sent;
  for (int i = 0; i < 3; ++i) {
    base::FileDescriptor descriptor = someDescriptor();
    sent.push_back(descriptor.get());
    reader_.feed(std::move(descriptor));
  }
  reader_.feed(seal("", {.descriptors = 1}));
  reader_.feed(seal("", {.descriptors = 2}));
  const auto first = reader_.next(), second = reader_.next();
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->message.descriptors.size(), 1U);
  ASSERT_EQ(second->message.descriptors.size(), 2U);
  EXPECT_EQ(first->message.descriptors[0].get(), sent[0]);
  EXPECT_EQ(second->message.descriptors[0].get(), sent[1]);
  EXPECT_EQ(second->message.descriptors[1].get(), sent[2]);
}

TEST_F(Frames, WithAnyBitFlippedAreRefused) {
  const base::Bytes good = seal("a payload");
  ASSERT_EQ(nextOf(good), "a payload");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    base::Bytes changed = good;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_EQ(nextOf(changed), kTampered) << "bit " << bit;
  }
}

TEST_F(Frames, ThatAreRepeatedLeftOutOrInAnotherOrderAreRefused) {
  const base::Bytes first = seal("first"), second = seal("second"), third = seal("third");
  reader_.feed(first);
  reader_.feed(first);
  EXPECT_EQ(next(reader_), "first");
  EXPECT_EQ(next(reader_), kTampered);
  EXPECT_EQ(nextOf(second), kTampered);
  SealedFrameReader late(key_);
  late.feed(first);
  late.feed(third);
  EXPECT_EQ(next(late), "first");
  EXPECT_EQ(next(late), kTampered);
  // The payload of one with the header of another.
  base::Bytes mixed = first;
  const auto body = static_cast<ptrdiff_t>(kSealedHeaderBytes);
  mixed.erase(mixed.begin() + body, mixed.end());
  mixed.insert(mixed.end(), third.begin() + body, third.end());
  EXPECT_EQ(nextOf(mixed), kTampered);
}

TEST_F(Frames, AreNotReflectedNorOfAnotherSession) {
  const wire::Key session = wire::randomBytes<32>();
  SealedFrameWriter there(wire::directionKey(session, "there"));
  SealedFrameReader back(wire::directionKey(session, "back"));
  back.feed(sealedBy(there, {}, "a payload"));
  EXPECT_EQ(next(back), kTampered);
  SealedFrameReader other(wire::randomBytes<32>());
  other.feed(seal("a payload"));
  EXPECT_EQ(next(other), kTampered);
}

// Of a peer that has the key.
TEST_F(Frames, ThatBreakTheProtocolAreRefused) {
  EXPECT_EQ(nextOf(seal("", {.kind = static_cast<FrameKind>(0)})),
            "sent something that is not a frame");
}

TEST_F(Frames, BeyondALimitAreRefusedByTheirHeader) {
  const auto refusalOf = [&](size_t bytes, const FrameHeader& header = {}) {
    SealedFrameWriter writer(key_);
    base::Bytes payload(bytes);
    SealedFrameReader reader(key_, 100);
    reader.feed(writer.seal(header, payload));  // the payload never comes
    return next(reader);
  };
  EXPECT_EQ(refusalOf(100), "nothing");
  EXPECT_EQ(refusalOf(101), "announced a payload of 101 bytes; the limit is 100");
  EXPECT_EQ(refusalOf(0, {.descriptors = 9}), "announced 9 descriptors; the limit is 8");
  EXPECT_EQ(refusalOf(0, {.descriptors = 1}), "announced 1 descriptors, and sent 0");
}

TEST_F(Frames, MustNameTheirDescriptors) {
  for (size_t i = 0; i < 2 * kMaxDescriptors; ++i) reader_.feed(someDescriptor());
  EXPECT_THROW(reader_.feed(someDescriptor()), Error);
}

}  // namespace
}  // namespace tutti::bootstrap
