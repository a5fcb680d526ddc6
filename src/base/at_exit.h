#pragma once

// What must be done when the program ends, however it was left: communicators may never be
// destroyed. Their threads must not run on into what libraries do at the exit, and other ranks must
// hear that this one leaves. An end by _exit(), abort() or a signal runs nothing of this.

#include <cstdint>
#include <functional>

#include "src/base/clock.h"
#include "src/base/process.h"

namespace tutti::base {

class AtExit {
 public:
  enum class Phase : uint8_t {
    Handlers,  ///< among the program's exit handlers, before those that were registered earlier
    Last,      ///< after all exit handlers, and the destructors of all static objects
  };
  /// What is called. It should end by the deadline: the exit does not wait much longer.
  using Stop = std::function<void(const Deadline& deadline)>;
  /// `stop` is called at the program's exit if this object is there still, the newest object's
  /// first; not in forked children. In the first phase it is to be made after the libraries are
  /// loaded that it uses; in the last one it must use none that was loaded later than Tutti.
  explicit AtExit(Stop stop, Phase phase = Phase::Handlers);
  /// Waits while `stop` is called, but not for ever.
  ~AtExit();
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  friend struct ExitList;
  const Stop stop_;
  const Phase phase_;
  const ProcessGuard guard_;
  const uint64_t number_;  // last: from then on it is known
};

/// The last phase has begun. Other threads may still be in calls, and nobody is to disturb them:
/// what they throw could end the program in another way than it is ending.
bool exitsNow();

}  // namespace tutti::base
