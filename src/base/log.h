#pragma once

// Logging for the library's own use: `log(LogLevel::Info, "rank ", rank, " joined")`.

#include <tutti/log.h>
#include "src/base/check.h"

namespace tutti::base {

bool logEnabled(LogLevel level);
void logLine(LogLevel level, const std::string& line);

template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (logEnabled(level)) logLine(level, message(parts...));
}

}  // namespace tutti::base
