#include "src/base/log.h"

#include <cstdio>
#include <mutex>

#include "src/base/env.h"
#include "src/base/printable.h"
#include "src/base/process.h"

namespace tutti {
namespace {

struct Sink {
  Sink() { base::freeInForkedChildren(mutex); }
  std::mutex mutex;
  LogSink custom;
};

// Made by the first who needs it, a static initializer perhaps, and never destroyed: the library's
// threads may still log while the process exits.
Sink& sink() {
  static auto* const instance = new Sink;
  return *instance;
}

}  // namespace

const char* toString(LogLevel level) {
  switch (level) {
    case LogLevel::Debug: return "debug";
    case LogLevel::Info: return "info";
    case LogLevel::Warning: return "warning";
    case LogLevel::Error: return "error";
  }
  return "?";
}

void setLogSink(LogSink custom) {
  std::lock_guard lock(sink().mutex);
  sink().custom = std::move(custom);
}

namespace base {

bool logEnabled(LogLevel level) {
  {
    std::lock_guard lock(sink().mutex);
    if (sink().custom) return true;
  }
  const auto& threshold = lenientEnv().log;
  return threshold && level >= *threshold;
}

void logLine(LogLevel level, const std::string& line) {
  std::lock_guard lock(sink().mutex);
  if (sink().custom) {
    sink().custom(level, line);
    return;
  }
  const std::string whole = message("tutti [", toString(level), "] ", printableLines(line), "\n");
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

}  // namespace base
}  // namespace tutti
