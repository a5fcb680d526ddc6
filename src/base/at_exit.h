#pragma once

// What must stop when the program ends, however it was left: communicators may never be destroyed,
// and their threads must not run on into what libraries do at the exit.

#include <functional>

#include "src/base/process.h"

namespace tutti::base {

class AtExit {
 public:
  /// `stop` is called at the program's exit if this object is there still, the newest object's
  /// first; not in forked children. To be made after the libraries are loaded that it uses.
  explicit AtExit(std::function<void()> stop);
  /// Waits while `stop` is called.
  ~AtExit();
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  friend struct ExitList;
  const std::function<void()> stop_;
  const ProcessGuard guard_;
};

}  // namespace tutti::base
