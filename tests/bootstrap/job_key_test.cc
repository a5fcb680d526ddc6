// Keys that people type, keys that are random, and what a guess costs.

#include "src/bootstrap/job_key.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <tutti/log.h>

#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::contains;
using enum KeyStrength;

TEST(JobKeys, AreJudgedByTheirTextAlone) {
  const std::pair<const char*, KeyStrength> cases[] = {
      {"", Refused},
      {"15 of character", Refused},
      {"aaaaaaaaaaaaaaaaaaaa", Refused},
      {"abababababababababababababababab", Refused},
      {"0123456789abcdefghij", Weak},
      {"password password", Weak},
      {"00001111222233334444555566667777", Weak},
      {"a key of enough letters", Typed},
      {"only-for-this-test", Weak},
      {"MyCompanyJobKey2024Cluster", Typed},
      {"myverylongpassphraseforthecluster", Typed},
      {"4f8a1c9be0d37725a6b1c3d4e5f60718", Random},
      {"4F8A1C9BE0D37725A6B1C3D4E5F60718AA", Random},
      {"4f8a1c9be0d37725a6b1c", Typed},              // 84 bits
      {"4f8a1c9be0d37725a6b1c3d4e5f6071g", Random},  // base64 as well
      {"q7Zt+0Xv/9pB3kLmR2sW8y==", Random},
      {"q7Zt-0Xv_9pB3kLmR2sW8y", Random},
      {"q7Zt-0Xv_9pB3kLmR2sW8", Typed},  // 126 bits
  };
  for (const auto& [key, strength] : cases) EXPECT_EQ(strengthOf(key), strength) << key;
}

// By `openssl rand -hex 16` and `-base64 32`, as `tutti run` and the pages have it.
TEST(JobKeys, ThatAreRandomAreSeenToBe) {
  int base64 = 0;
  constexpr int kKeys = 1000;
  for (int i = 0; i < kKeys; ++i) {
    const auto bytes = wire::randomBytes<32>();
    EXPECT_EQ(strengthOf(base::hex(std::span(bytes).first(16))), Random);
    std::array<char, 64> text{};
    ::sodium_bin2base64(text.data(), text.size(),
                        reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                        sodium_base64_VARIANT_ORIGINAL);
    base64 += strengthOf(text.data()) == Random;
    EXPECT_GE(strengthOf(text.data()), Typed) << text.data();
  }
  EXPECT_GT(base64, kKeys * 9 / 10);  // the others only take the slow way
}

TEST(JobKeys, WithLittleInThemAreRefusedOrWarnedAbout) {
  std::vector<std::string> log;
  setLogSink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::Warning) log.emplace_back(line);
  });
  EXPECT_THROW(requireJobKey("short", 0), Error);
  EXPECT_THROW(requireJobKey("aaaaaaaaaaaaaaaaaaaa", 0), Error);
  requireJobKey("a key of enough letters", 0);
  requireJobKey("4f8a1c9be0d37725a6b1c3d4e5f60718", 0);
  EXPECT_TRUE(log.empty());
  requireJobKey("0123456789abcdefghij", 1);
  EXPECT_TRUE(log.empty());
  requireJobKey("0123456789abcdefghij", 0);
  setLogSink({});
  ASSERT_EQ(log.size(), 1U);
  EXPECT_TRUE(contains(log[0], "TUTTI_JOB_KEY is easy to guess")) << log[0];
}

// Whoever has recorded one handshake tries a key no faster than libsodium's Argon2id does.
TEST(JobKeys, ThatAreTypedTakeMemoryAndTimeToGuess) {
  const std::string typed = "a key of enough letters";
  const wire::Key secret = secretOfKey(typed, "n1:29500");
  EXPECT_EQ(secretOfKey(typed, "n1:29500"), secret);
  EXPECT_NE(secretOfKey(typed, "n1:29501"), secret);
  EXPECT_NE(secretOfKey(typed + "x", "n1:29500"), secret);
  EXPECT_NE(wire::digest<32>("job key", typed), secret);
  EXPECT_EQ(secret, wire::stretch(typed, "n1:29500", {.bytes = 32 << 20, .passes = 2}));
  // A random key needs none of that.
  const std::string random = "4f8a1c9be0d37725a6b1c3d4e5f60718";
  EXPECT_EQ(secretOfKey(random, "n1:29500"), wire::digest<32>("job key", random));
}

}  // namespace
}  // namespace tutti::bootstrap
