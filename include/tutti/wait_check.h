#pragma once

/// \file
/// Ends waits from the waiting thread itself. Bindings of an interpreter use it, which handles
/// signals on its main thread only.

#include <functional>

namespace tutti {

/// While it lives, a call that waits on this thread calls `check` about every 100 ms. This holds
/// for calls on host memory without a stream, and for Group::end(). If `check` throws, the
/// operation's communicator fails with Aborted, and the other ranks hear of it. The call throws
/// what `check` has thrown, once its buffers are no longer used. `check` must not call Tutti.
///
/// Objects of one thread nest: the innermost counts. Destroy them in the reverse order of their
/// construction, on their thread.
class WaitCheck {
 public:
  explicit WaitCheck(std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

 private:
  std::function<void()> check_;
  const std::function<void()>* outer_;
};

}  // namespace tutti
