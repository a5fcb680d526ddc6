#include "channel.h"

#include <utility>

namespace tutti_torch {

void Channel::use(Use use) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(std::move(use));
  const bool isOpen = communicator_ || failure_;
  if (!isOpen && !opener_.joinable())
    opener_ = std::jthread([self = weak_from_this()](std::stop_token stop) {
      if (const auto channel = self.lock()) channel->openNow(std::move(stop));
    });
  if (isOpen) serve(lock);
}

void Channel::openNow(std::stop_token stop) {
  std::unique_ptr<tutti::Communicator> opened;
  std::exception_ptr failure;
  try {
    opened = std::make_unique<tutti::Communicator>(open_(std::move(stop)));
  } catch (...) {
    failure = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  communicator_ = std::move(opened);
  if (communicator_) stream_ = std::make_unique<tutti::Stream>();
  serve(lock);
}

// Who comes while another thread serves leaves its call to that one.
void Channel::serve(std::unique_lock<std::mutex>& lock) {
  if (serving_) return;
  serving_ = true;
  while (!waiting_.empty()) {
    const auto uses = std::exchange(waiting_, {});
    const auto failure = failure_;
    tutti::Communicator* const communicator = failure ? nullptr : communicator_.get();
    const tutti::StreamRef stream = communicator ? tutti::StreamRef(*stream_) : tutti::StreamRef();
    lock.unlock();
    for (const auto& each : uses) each(communicator, stream, failure);
    lock.lock();
  }
  serving_ = false;
  served_.notify_all();
}

void Channel::behind(tutti::Communicator& communicator,
                     std::function<void(std::exception_ptr)> then) {
  stream_->enqueue([&communicator, then = std::move(then)] {
    const auto error = communicator.asyncError();
    then(error ? std::make_exception_ptr(*error) : nullptr);
  });
}

void Channel::abort() {
  std::unique_lock lock(mutex_);
  opener_.request_stop();
  if (communicator_) return communicator_->abort();
  if (failure_) return;
  failure_ = std::make_exception_ptr(
      tutti::Error(tutti::ErrorCode::Aborted, "the process group was aborted or shut down"));
  serve(lock);
}

void Channel::close(Clock::time_point until) {
  std::jthread opener;
  std::unique_ptr<tutti::Communicator> communicator;
  std::unique_ptr<tutti::Stream> stream;
  {
    std::unique_lock lock(mutex_);
    if (!failure_)
      failure_ = std::make_exception_ptr(
          tutti::Error(tutti::ErrorCode::Aborted, "the process group was shut down"));
    opener = std::exchange(opener_, {});
    serve(lock);
    served_.wait(lock, [&] { return !serving_; });
    communicator = std::move(communicator_);
    stream = std::move(stream_);
  }
  opener.request_stop();
  if (opener.joinable()) opener.join();
  if (!communicator) return;
  Task drained(milliseconds(0));
  stream->enqueue([&] { drained.finish(); });
  if (!drained.waitUntil(until)) communicator->abort();
  try {
    stream->synchronize();
  } catch (const tutti::Error&) {  // its transfers have ended with it
  }
  stream.reset();
  communicator.reset();
}

}  // namespace tutti_torch
