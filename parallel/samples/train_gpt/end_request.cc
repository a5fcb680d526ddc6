#include "parallel/samples/train_gpt/end_request.h"

namespace tutti::parallel {

namespace {

// A handler has no other way to find its object.
volatile std::sig_atomic_t received = 0;

void onSignal(int number) { received = number; }

}  // namespace

EndRequest::EndRequest() {
  received = 0;
  for (size_t i = 0; i < kEndSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_RESTART;
    if (kEndSignals[i] == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    sigaction(kEndSignals[i], &action, &before_[i]);
  }
}

EndRequest::~EndRequest() {
  for (size_t i = 0; i < kEndSignals.size(); ++i) sigaction(kEndSignals[i], &before_[i], nullptr);
}

int EndRequest::signal() const { return received; }

}  // namespace tutti::parallel
