#include "src/bootstrap/job_key.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "src/base/check.h"
#include "src/base/log.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kLeastCharacters = 16, kLeastDifferent = 4;
constexpr double kWeakBits = 64;
constexpr size_t kHexDigits = 32, kBase64Digits = 22;  // of 128 bits
constexpr double kLeastRandomBits = 48;  // by bitsOf(), which random digits exceed by far

bool isHexDigit(unsigned char letter) { return std::isxdigit(letter) != 0; }
bool isBase64Digit(unsigned char letter) {
  return std::isalnum(letter) || letter == '+' || letter == '/' || letter == '-' || letter == '_';
}

/// Of base64's alphabet: capitals, small letters, digits, signs.
int classOf(unsigned char letter) {
  return std::isupper(letter) ? 0 : std::islower(letter) ? 1 : std::isdigit(letter) ? 2 : 3;
}

size_t differentCharacters(const std::string& text) {
  return std::set<char>(text.begin(), text.end()).size();
}

/// Neighbors in random base64 are of different classes in two cases of three. In words they seldom
/// are.
bool changesClassOften(const std::string& text) {
  size_t changes = 0;
  for (size_t i = 1; i < text.size(); ++i) changes += classOf(text[i - 1]) != classOf(text[i]);
  return 2 * changes >= text.size() - 1;
}

/// At most: a character that follows from the one before, as in "aaa", "abc" or "321", adds
/// nothing, and each other one as much as if all that occur were as frequent.
double bitsOf(const std::string& key) {
  size_t counted = 1;
  for (size_t i = 1; i < key.size(); ++i) counted += std::abs(key[i] - key[i - 1]) > 1;
  return static_cast<double>(counted) * std::log2(static_cast<double>(differentCharacters(key)));
}

bool looksRandom(const std::string& key) {
  if (bitsOf(key) < kLeastRandomBits) return false;
  if (key.size() >= kHexDigits && std::ranges::all_of(key, isHexDigit)) return true;
  std::string digits = key;  // without "=" at its end
  while (digits.ends_with('=')) digits.pop_back();
  return digits.size() >= kBase64Digits && std::ranges::all_of(digits, isBase64Digit) &&
         changesClassOften(digits);
}

}  // namespace

KeyStrength strengthOf(const std::string& key) {
  if (key.size() < kLeastCharacters || differentCharacters(key) < kLeastDifferent)
    return KeyStrength::Refused;
  if (looksRandom(key)) return KeyStrength::Random;
  return bitsOf(key) < kWeakBits ? KeyStrength::Weak : KeyStrength::Typed;
}

void requireJobKey(const std::string& key, int rank) {
  constexpr const char* kCure = "; `openssl rand -hex 32` makes a good one";
  TUTTI_REQUIRE(key.size() >= kLeastCharacters, "TUTTI_JOB_KEY has ", key.size(),
                " characters; at least ", kLeastCharacters, " make a key", kCure);
  TUTTI_REQUIRE(strengthOf(key) != KeyStrength::Refused, "TUTTI_JOB_KEY has ",
                differentCharacters(key), " different characters; at least ", kLeastDifferent,
                " make a key", kCure);
  if (rank == 0 && strengthOf(key) == KeyStrength::Weak)
    base::log(LogLevel::Warning, "TUTTI_JOB_KEY is easy to guess: whoever guesses it joins the job",
              kCure);
}

wire::Key secretOfKey(const std::string& key, const std::string& place) {
  if (strengthOf(key) == KeyStrength::Random) return wire::digest<32>("job key", key);
  const auto secret = wire::stretch(key, place, kGuessCost);
  if (!secret)
    base::fail(ErrorCode::OutOfMemory, "TUTTI_JOB_KEY: Argon2id had no ", kGuessCost.bytes >> 20,
               " MiB; a key of `openssl rand -hex 32` needs none");
  return *secret;
}

}  // namespace tutti::bootstrap
