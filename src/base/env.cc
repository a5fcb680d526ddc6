#include "src/base/env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace tutti::base {
namespace {

long parseNumber(const char* name, long fallback, long least, long most) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  long value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  TUTTI_REQUIRE(error == std::errc() && rest == end && value >= least && value <= most, name, "=",
                text, " is not a whole number from ", least, " to ", most);
  return value;
}

constexpr long kMostMs = kLongestWait.count();
constexpr long kMostSlotBytes = 64L << 20;
constexpr long kMostGpuBlocks = 1024;

/// Of CUDA, which takes the nearest number that there can be.
long parseQueues(const char* name, long fallback) {
  const char* text = std::getenv(name);
  const long value = text ? std::strtol(text, nullptr, 10) : 0;
  return value > 0 ? std::min(value, 32L) : fallback;
}

bool parseFlag(const char* name) { return parseNumber(name, 0, 0, 1) == 1; }

std::optional<bool> parseChoice(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  return parseFlag(name);
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
  e.timeoutMs = parseNumber("TUTTI_TIMEOUT_MS", e.timeoutMs, 1, kMostMs);
  e.setupTimeoutMs = parseNumber("TUTTI_SETUP_TIMEOUT_MS", e.setupTimeoutMs, 1, kMostMs);
  e.stragglerMs = parseNumber("TUTTI_STRAGGLER_MS", e.stragglerMs, 0, kMostMs);
  e.deterministic = parseFlag("TUTTI_DETERMINISTIC");
  if (const char* text = std::getenv("TUTTI_ALGORITHM")) e.algorithm = text;
  if (const char* text = std::getenv("TUTTI_INTERFACE")) e.interface = text;
  if (const char* text = std::getenv("NCCL_SOCKET_IFNAME")) e.socketInterfaces = text;
  if (const char* text = std::getenv("TUTTI_TRANSPORT")) e.transport = text;
  if (const char* text = std::getenv("TUTTI_TUNING")) e.tuning = text;
  e.slotBytes = static_cast<size_t>(parseNumber("TUTTI_SLOT_BYTES", 0, 0, kMostSlotBytes));
  e.gpuBlocks = parseNumber("TUTTI_GPU_BLOCKS", 0, 0, kMostGpuBlocks);
  e.gpuDirect = parseChoice("TUTTI_GPU_DIRECT");
  e.gpuCopies = parseFlag("TUTTI_GPU_COPIES");
  const char* const virtualMemory = std::getenv("NCCL_CUMEM_ENABLE");
  e.gpuIpc =
      parseChoice("TUTTI_GPU_IPC").value_or(virtualMemory && virtualMemory == std::string("0"));
  e.gpuQueues = parseQueues("CUDA_DEVICE_MAX_CONNECTIONS", e.gpuQueues);
  return e;
}

}  // namespace

const Env& env() {
  static const auto* const instance = new Env(readEnv());  // threads may log until the very end
  return *instance;
}

}  // namespace tutti::base
