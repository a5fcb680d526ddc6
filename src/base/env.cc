#include "src/base/env.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "src/base/check.h"

namespace tutti::base {
namespace {

long parseNumber(const char* name, long fallback) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  long value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  TUTTI_REQUIRE(error == std::errc() && rest == end && value >= 0, name, "=", text,
                " is not a non-negative whole number");
  return value;
}

bool parseFlag(const char* name) {
  const long value = parseNumber(name, 0);
  TUTTI_REQUIRE(value <= 1, name, "=", value, " is neither 0 nor 1");
  return value == 1;
}

std::optional<LogLevel> parseLevel(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return LogLevel::Warning;
  const std::string word = text;
  if (word == "off") return std::nullopt;
  for (LogLevel level : {LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error})
    if (word == toString(level)) return level;
  fail(ErrorCode::InvalidArgument, name, "=", word, " is none of debug, info, warning, error, off");
}

Env readEnv() {
  Env e;
  e.log = parseLevel("TUTTI_LOG");
  e.timeoutMs = parseNumber("TUTTI_TIMEOUT_MS", e.timeoutMs);
  e.setupTimeoutMs = parseNumber("TUTTI_SETUP_TIMEOUT_MS", e.setupTimeoutMs);
  e.stragglerMs = parseNumber("TUTTI_STRAGGLER_MS", e.stragglerMs);
  e.deterministic = parseFlag("TUTTI_DETERMINISTIC");
  if (const char* text = std::getenv("TUTTI_ALGORITHM")) e.algorithm = text;
  e.slotBytes = static_cast<size_t>(parseNumber("TUTTI_SLOT_BYTES", 0));
  return e;
}

}  // namespace

const Env& env() {
  static const auto* const instance = new Env(readEnv());  // threads may log until the very end
  return *instance;
}

}  // namespace tutti::base
