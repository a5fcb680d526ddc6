#include "tests/emulation/environment.h"

#include <cstdlib>
#include <string>

#include "tests/emulation/emulation.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {
namespace {

uint64_t number(const char* name, uint64_t otherwise, uint64_t least) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value < least)
    fail(std::string(name) + "=" + text + " is no number from " + std::to_string(least) + " on");
  return value;
}

Environment read() {
  Environment all;
  all.seed = number("TUTTI_EMULATION_SEED", all.seed, 0);
  all.workers = static_cast<int>(number("TUTTI_EMULATION_WORKERS", 2, 1));
  all.timeoutSeconds = static_cast<int>(number("TUTTI_EMULATION_TIMEOUT", 30, 1));
  const uint64_t stack = kThreadSanitizer || kAddressSanitizer ? 256 : 64;
  all.stackBytes = number("TUTTI_EMULATION_STACK", stack, 16) << 10;
  return all;
}

}  // namespace

const Environment& environment() {
  static const Environment all = read();
  return all;
}

}  // namespace tutti::emulation
