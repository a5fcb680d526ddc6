// Sealing texts by a key and a counter.

#include "src/wire/cipher.h"

#include <gtest/gtest.h>

#include <vector>

#include <tutti/error.h>

namespace tutti::wire {
namespace {

std::vector<CipherKind> kinds() {
  std::vector<CipherKind> all{CipherKind::ChaCha20Poly1305};
  if (hasAes()) all.push_back(CipherKind::Aes256Gcm);
  return all;
}

base::Bytes textOf(size_t bytes) {
  base::Bytes text(bytes);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::byte>(i * 7 + bytes);
  return text;
}

base::Bytes sealed(Cipher& cipher, const base::Bytes& text) {
  base::Bytes out(text.size() + kSealBytes);
  cipher.seal(text, out.data());
  return out;
}

class Ciphers : public testing::TestWithParam<CipherKind> {
 protected:
  const Key key_ = randomBytes<32>();
  Cipher one_{GetParam(), key_}, other_{GetParam(), key_};
};

TEST_P(Ciphers, OpenWhatTheOtherEndSealed) {
  for (const size_t bytes : {0, 1, 15, 16, 32, 1000, 32768}) {
    const base::Bytes text = textOf(bytes), closed = sealed(one_, text);
    if (bytes > 8) {
      EXPECT_NE(base::Bytes(closed.begin(), closed.end() - kSealBytes), text);
    }
    base::Bytes out(bytes);
    ASSERT_TRUE(other_.open(closed, out.data())) << bytes;
    EXPECT_EQ(out, text);
  }
  EXPECT_EQ(one_.count(), 7U);
  EXPECT_EQ(other_.count(), 7U);
}

TEST_P(Ciphers, WorkInPlace) {
  base::Bytes text = textOf(500), room = text;
  room.resize(500 + kSealBytes);
  one_.seal(std::span(room).first(500), room.data());
  ASSERT_TRUE(other_.open(room, room.data()));
  room.resize(500);
  EXPECT_EQ(room, text);
}

TEST_P(Ciphers, RefuseWhatWasChanged) {
  const base::Bytes text = textOf(40);
  for (size_t at = 0; at < text.size() + kSealBytes; ++at) {
    Cipher from(GetParam(), key_), to(GetParam(), key_);
    base::Bytes closed = sealed(from, text), out(text.size());
    closed[at] ^= std::byte{0x10};
    EXPECT_FALSE(to.open(closed, out.data())) << at;
  }
  base::Bytes out(8);
  EXPECT_FALSE(other_.open(base::Bytes(kSealBytes - 1), out.data()));
}

TEST_P(Ciphers, RefuseWhatWasRepeatedOrLeftOut) {
  const base::Bytes first = sealed(one_, textOf(20)), second = sealed(one_, textOf(20));
  base::Bytes out(20);
  Cipher repeated(GetParam(), key_), gap(GetParam(), key_);
  EXPECT_TRUE(repeated.open(first, out.data()));
  EXPECT_FALSE(repeated.open(first, out.data()));
  EXPECT_FALSE(gap.open(second, out.data()));
}

TEST_P(Ciphers, OfOtherKeysOpenNothing) {
  Cipher other(GetParam(), randomBytes<32>());
  base::Bytes out(20);
  EXPECT_FALSE(other.open(sealed(one_, textOf(20)), out.data()));
}

INSTANTIATE_TEST_SUITE_P(All, Ciphers, testing::ValuesIn(kinds()), [](const auto& each) {
  return each.param == CipherKind::Aes256Gcm ? "aes" : "chacha";
});

// One direction's texts are none of the other's.
TEST(DirectionKey, DiffersByDirection) {
  const Key session = randomBytes<32>();
  EXPECT_NE(directionKey(session, "connecting"), directionKey(session, "accepting"));
  EXPECT_EQ(directionKey(session, "connecting"), directionKey(session, "connecting"));
  EXPECT_NE(directionKey(session, "connecting"), directionKey(randomBytes<32>(), "connecting"));
}

}  // namespace
}  // namespace tutti::wire
