#pragma once

/// \file
/// Log lines of the library. The library writes to no stream itself: it passes lines to one
/// callback.

#include <functional>
#include <string_view>

namespace tutti {

enum class LogLevel { Debug, Info, Warning, Error };

const char* toString(LogLevel level);

using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// Replaces the process's log sink. Any thread may call it. Any thread may call the sink, and the
/// sink must not call Tutti.
///
/// The default sink writes to standard error, from the level that `TUTTI_LOG` names: debug, info,
/// warning (the default), error or off.
void setLogSink(LogSink sink);

}  // namespace tutti
