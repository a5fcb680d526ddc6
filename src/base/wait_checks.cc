#include "src/base/wait_checks.h"

#include <utility>

#include <tutti/wait_check.h>

namespace tutti {

namespace {

const std::function<void()>*& checkOfThread() {
  thread_local const std::function<void()>* check = nullptr;
  return check;
}

}  // namespace

WaitCheck::WaitCheck(std::function<void()> check)
    : check_(std::move(check)), outer_(std::exchange(checkOfThread(), &check_)) {}

WaitCheck::~WaitCheck() { checkOfThread() = outer_; }

namespace base {

void WaitChecks::look() {
  const std::function<void()>* const check = checkOfThread();
  if (!check) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  (*check)();
}

}  // namespace base

}  // namespace tutti
