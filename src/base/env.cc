#include "src/base/env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/printable.h"

namespace tutti::base {
namespace {

constexpr long kMostMs = kLongestWait.count();
constexpr long kMostSlotBytes = 64L << 20;
constexpr long kMostGpuBlocks = 1024;
constexpr long kMostTcpStreams = 16;

class Reading {
 public:
  explicit Reading(const EnvLookup& lookup) : lookup_(lookup) {
    env.log = level("TUTTI_LOG");
    env.timeoutMs = number("TUTTI_TIMEOUT_MS", env.timeoutMs, 1, kMostMs);
    env.setupTimeoutMs = number("TUTTI_SETUP_TIMEOUT_MS", env.setupTimeoutMs, 1, kMostMs);
    env.stragglerMs = number("TUTTI_STRAGGLER_MS", env.stragglerMs, 0, kMostMs);
    env.deterministic = flag("TUTTI_DETERMINISTIC");
    env.algorithm = text("TUTTI_ALGORITHM");
    env.algorithmFile = text("TUTTI_ALGORITHM_FILE");
    env.interface = text("TUTTI_INTERFACE");
    env.socketInterfaces = text("NCCL_SOCKET_IFNAME");
    env.transport = text("TUTTI_TRANSPORT");
    env.encryption = onOrOff("TUTTI_ENCRYPTION");
    env.reconnectMs = number("TUTTI_RECONNECT_MS", env.reconnectMs, 0, kMostMs);
    env.tcpStreams = number("TUTTI_TCP_STREAMS", env.tcpStreams, 1, kMostTcpStreams);
    env.trafficClass = number("TUTTI_TRAFFIC_CLASS", env.trafficClass, -1, 255);
    env.tuning = text("TUTTI_TUNING");
    env.slotBytes = static_cast<size_t>(number("TUTTI_SLOT_BYTES", 0, 0, kMostSlotBytes));
    env.shmAttach = choice("TUTTI_SHM_ATTACH").value_or(true);
    env.gpuBlocks = number("TUTTI_GPU_BLOCKS", 0, 0, kMostGpuBlocks);
    env.gpuDirect = choice("TUTTI_GPU_DIRECT");
    env.gpuCopies = flag("TUTTI_GPU_COPIES");
    env.gpuIpc = choice("TUTTI_GPU_IPC").value_or(text("NCCL_CUMEM_ENABLE") == "0");
    env.gpuQueues = queues("CUDA_DEVICE_MAX_CONNECTIONS", env.gpuQueues);
  }

  Env env;
  std::optional<Error> malformed;
  std::vector<std::pair<std::string, std::string>> values;

 private:
  /// `value` of the variable `name`.
  template <class T>
  T noted(const char* name, const T& value) {
    values.emplace_back(name, message(value));
    return value;
  }

  std::string set(const char* name) const {
    const char* const value = lookup_(name);
    return value ? value : "";
  }

  std::string text(const char* name) { return noted(name, set(name)); }

  template <class... Words>
  void note(const Words&... words) {
    if (!malformed) malformed.emplace(ErrorCode::InvalidArgument, message(words...));
  }

  long number(const char* name, long fallback, long least, long most) {
    return noted(name, parsed(name, fallback, least, most));
  }

  long parsed(const char* name, long fallback, long least, long most) {
    const std::string digits = set(name);
    if (digits.empty()) return fallback;
    long value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc() && rest == end && value >= least && value <= most) return value;
    note(name, "=", printable(digits), " is not a whole number from ", least, " to ", most);
    return fallback;
  }

  bool flag(const char* name) { return number(name, 0, 0, 1) == 1; }

  bool onOrOff(const char* name) {
    const std::string word = set(name);
    if (!word.empty() && word != "on" && word != "off")
      note(name, "=", printable(word), " is neither on nor off");
    return noted<std::string>(name, word == "on" ? "on" : "off") == "on";
  }

  std::optional<bool> choice(const char* name) {
    if (!set(name).empty()) return flag(name);
    noted(name, std::string());
    return std::nullopt;
  }

  /// Of CUDA, which takes the nearest number that there can be.
  long queues(const char* name, long fallback) {
    const long value = std::strtol(set(name).c_str(), nullptr, 10);
    return noted(name, value > 0 ? std::min(value, 32L) : fallback);
  }

  std::optional<LogLevel> level(const char* name) {
    const std::string word = set(name);
    std::optional<LogLevel> found = LogLevel::Warning;
    if (word == "off") found.reset();
    for (LogLevel l : {LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error})
      if (word == toString(l)) found = l;
    if (!word.empty() && word != "off" && word != toString(*found))
      note(name, "=", printable(word), " is none of debug, info, warning, error, off");
    noted<std::string>(name, found ? toString(*found) : "off");
    return found;
  }

  const EnvLookup& lookup_;
};

const EnvReading& reading() {
  // Threads may log until the very end.
  static const auto* const instance =
      new EnvReading(readEnv([](const char* name) { return std::getenv(name); }));
  return *instance;
}

}  // namespace

EnvReading readEnv(const EnvLookup& lookup) {
  Reading reading(lookup);
  return {std::move(reading.env), std::move(reading.malformed), std::move(reading.values)};
}

const Env& env() {
  if (const auto& malformed = reading().malformed) throw Error(*malformed);
  return reading().env;
}

const Env& lenientEnv() { return reading().env; }

const std::vector<std::pair<std::string, std::string>>& envValues() { return reading().values; }

}  // namespace tutti::base
