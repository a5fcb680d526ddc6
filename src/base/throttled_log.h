#pragma once

// ThrottledLog: lines that strangers can cause, as many as they like. One in each pause is logged,
// and then how many others there were.

#include <chrono>
#include <cstdint>

#include "src/base/log.h"

namespace tutti::base {

/// Of one kind of line; for one thread.
class ThrottledLog {
 public:
  explicit ThrottledLog(LogLevel level,
                        std::chrono::milliseconds pause = std::chrono::milliseconds{1000})
      : level_(level), pause_(pause) {}
  ~ThrottledLog() { sayMore(); }
  ThrottledLog(const ThrottledLog&) = delete;
  ThrottledLog& operator=(const ThrottledLog&) = delete;

  /// Logs the line, or counts it.
  template <class... Parts>
  void log(const Parts&... parts) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) {
      last_ = message(parts...);
      ++more_;
      return;
    }
    sayMore();
    base::log(level_, parts...);
    next_ = now + pause_;
  }

 private:
  void sayMore() {
    if (more_ > 0) base::log(level_, "... and ", more_, " more, the last of them: ", last_);
    more_ = 0;
  }

  const LogLevel level_;
  const std::chrono::milliseconds pause_;
  std::chrono::steady_clock::time_point next_{};
  uint64_t more_ = 0;  // since the last line
  std::string last_;
};

}  // namespace tutti::base
