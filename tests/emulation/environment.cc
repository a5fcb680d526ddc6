#include "tests/emulation/environment.h"

#include <cstdlib>
#include <string>

#include "tests/emulation/emulation.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {
namespace {

uint64_t number(const char* name, uint64_t otherwise, uint64_t least,
                uint64_t most = uint64_t(1) << 40) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > most)
    fail(std::string(name) + "=" + text + " is no number from " + std::to_string(least) + " to " +
         std::to_string(most));
  return value;
}

Environment read() {
  Environment all;
  all.seed = number("TUTTI_EMULATION_SEED", all.seed, 0);
  all.workers = static_cast<int>(number("TUTTI_EMULATION_WORKERS", 2, 1));
  all.timeoutSeconds = static_cast<int>(number("TUTTI_EMULATION_TIMEOUT", 30, 1));
  const uint64_t stack = kThreadSanitizer || kAddressSanitizer ? 256 : 64;
  all.stackBytes = number("TUTTI_EMULATION_STACK", stack, 16) << 10;
  all.devices = static_cast<int>(number("TUTTI_EMULATION_DEVICES", 4, 0, kMaxDevices));
  all.processors = static_cast<int>(number("TUTTI_EMULATION_PROCESSORS", 4, 1, 1024));
  all.memoryBytes = number("TUTTI_EMULATION_MEMORY", 2048, 1, 1 << 20) << 20;
  const uint64_t lazy = number("TUTTI_EMULATION_LAZY_LOADING", 0, 0, 2);
  all.isLoadingLazy = lazy != 0;
  all.isLateLoadingWrong = lazy == 2;
  all.isWaitingLocked = number("TUTTI_EMULATION_LOCKED_WAITS", 0, 0, 1) != 0;
  all.connections = number("CUDA_DEVICE_MAX_CONNECTIONS", all.connections, 1, 32);
  all.pending = number("TUTTI_EMULATION_PENDING", 0, 0);
  return all;
}

}  // namespace

const Environment& environment() {
  static const Environment all = read();
  return all;
}

}  // namespace tutti::emulation
