#include "src/communicator/failure/failure_state.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"

namespace tutti::communicator {
namespace {

// Operations that a failure prints; describe() has all that are kept.
constexpr size_t kRecordedLines = 8;

}  // namespace

FailureState::FailureState(const Membership& who, Messages& messages, Effects effects)
    : who_(who), messages_(messages), effects_(std::move(effects)) {
  messages.handle<message::FailureMessage>(
      [this](int, const message::FailureMessage& told, const auto&) {
        fail(Error(told.code, told.text), false);
      });
}

void FailureState::fail(const Error& error, bool tellOthers) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    failedAtNs_ = clock_.nowNs();
    failed_.store(true, std::memory_order_seq_cst);
    effects_.abort();
  }
  notify();
  ended_.request_stop();
  if (tellOthers) tell(error);
  if (error.code() != ErrorCode::Aborted)
    base::log(LogLevel::Error, who_.self(), ": ", error.what(), "; recent operations:\n",
              effects_.recorded(kRecordedLines));
}

void FailureState::tell(const Error& error) {
  messages_.sendAll(message::FailureMessage{error.code(), error.what()});
}

bool FailureState::passOn() {
  const std::optional<Error> first = reason();
  if (!first || first->code() == ErrorCode::Aborted) return false;
  tell(*first);
  return true;
}

void FailureState::throwIfFailed() const {
  if (hasFailed()) throwFailure();
}

void FailureState::throwFailure() const { throwFailure(lock()); }

void FailureState::throwFailure(const Lock&) const {
  thrown_.store(true, std::memory_order_release);
  if (failure_) throw Error(*failure_);
  base::fail(ErrorCode::Aborted, who_.self(), " dropped an operation");
}

std::optional<Error> FailureState::reason() const {
  const Lock held = lock();
  return failure_;
}

}  // namespace tutti::communicator
