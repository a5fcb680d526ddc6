// Keys, digests and message authentication.

#include "src/wire/secrets.h"

#include <gtest/gtest.h>

namespace tutti::wire {
namespace {

Key keyOf(int first) {
  Key key;
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return key;
}

base::Bytes bytesOf(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// What `openssl dgst -sha256 -mac HMAC -macopt hexkey:000102...1f` says.
TEST(Secrets, AuthenticateByHmacSha256) {
  EXPECT_EQ(base::hex(authenticate(keyOf(0), bytesOf("tutti"))),
            "8a03eb9f0b41e962753b3f0d04d505fd7fa36ee9476a9d638d30849f96a2b427");
  EXPECT_EQ(base::hex(authenticate(keyOf(0), {})),
            "d38b42096d80f45f826b44a9d5607de72496a415d3f4a1a8c88e3bb9da8dc1cb");
}

TEST(Secrets, OfOtherKeysOrTextsAreNotEqual) {
  const Mac mac = authenticate(keyOf(0), bytesOf("text"));
  EXPECT_TRUE(equal(mac, authenticate(keyOf(0), bytesOf("text"))));
  EXPECT_FALSE(equal(mac, authenticate(keyOf(1), bytesOf("text"))));
  EXPECT_FALSE(equal(mac, authenticate(keyOf(0), bytesOf("texT"))));
  for (const size_t at : {size_t{0}, mac.size() - 1}) {
    Mac changed = mac;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(equal(mac, changed)) << "byte " << at;
  }
}

TEST(Secrets, DigestsDependOnThePurposeAndOnWhereItEnds) {
  const auto one = digest<32>("job", "a text");
  EXPECT_EQ(one, digest<32>("job", "a text"));
  EXPECT_NE(one, digest<32>("secret", "a text"));
  EXPECT_NE(one, digest<32>("job", "a texT"));
  EXPECT_NE(digest<32>("job", "text"), digest<32>("jobt", "ext"));
  EXPECT_NE(base::hex(digest<16>("job", "a text")), base::hex(one).substr(0, 32));
}

TEST(Secrets, AtRandomAreNeverTheSame) {
  const auto one = randomBytes<32>(), other = randomBytes<32>();
  EXPECT_NE(one, other);
  EXPECT_NE(one, Key{});
}

TEST(Secrets, OfTextsThatMayBeGuessedDependOnAllThatMakesThem) {
  constexpr StretchCost kCost{.bytes = size_t{1} << 20, .passes = 1};
  const auto key = stretch("a text", "a place", kCost);
  ASSERT_TRUE(key);
  EXPECT_EQ(stretch("a text", "a place", kCost), key);
  for (const auto& other :
       {stretch("another text", "a place", kCost), stretch("a text", "another place", kCost),
        stretch("a text", "a place", {.bytes = kCost.bytes, .passes = 2}),
        stretch("a text", "a place", {.bytes = 2 * kCost.bytes, .passes = 1})}) {
    ASSERT_TRUE(other);
    EXPECT_NE(other, key);
  }
  EXPECT_FALSE(stretch("a text", "a place", {.bytes = size_t{1} << 60, .passes = 1}));
}

TEST(Secrets, JobsAreBriefInMessages) {
  JobId job{};
  job[0] = std::byte{0xab};
  job[3] = std::byte{0x0c};
  job[4] = std::byte{0xff};
  EXPECT_EQ(brief(job), "ab00000c");
}

}  // namespace
}  // namespace tutti::wire
