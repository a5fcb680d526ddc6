#pragma once

// The library never writes to a stream of its own accord: it hands lines to one callback.

#include <functional>
#include <string_view>

namespace tutti {

enum class LogLevel { Debug, Info, Warning, Error };

const char* toString(LogLevel level);

using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// Replaces the process's log sink. The default writes lines of level `TUTTI_LOG` (debug, info,
/// warning, error, off; default warning) and above to standard error. Thread safe; the sink may be
/// called from any thread and must not call into Tutti.
void setLogSink(LogSink sink);

}  // namespace tutti
