#include "tasks.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tutti_torch {
namespace {

/// What it throws, or null.
std::exception_ptr errorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

std::exception_ptr Task::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void Task::finish(std::exception_ptr error) {
  std::vector<std::function<void()>> then;
  if (land_ && !error) error = errorOf(land_);
  {
    std::lock_guard lock(mutex_);
    if (isDone()) return;
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
    then.swap(then_);
  }
  changed_.notify_all();
  tell(std::move(then));
}

void Task::tell(std::vector<std::function<void()>> then) {
  for (const auto& each : then) each();
}

void Task::whenDone(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    if (!isDone()) {
      then_.push_back(std::move(then));
      return;
    }
  }
  then();
}

bool Task::waitUntil(Clock::time_point until) {
  if (isDone()) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [&] { return isDone(); });
}

std::exception_ptr QueuedJob::run() {
  const auto body = std::move(body_);  // what it holds is let go before anybody hears of the end
  return errorOf(body);
}

void QueuedJob::refuse(std::exception_ptr error) {
  body_ = nullptr;
  finish(std::move(error));
}

void JobQueue::push(std::shared_ptr<QueuedJob> job) {
  {
    Lock lock(mutex_);
    if (!closed_) {
      jobs_.push_back(std::move(job));
      if (threads_.size() == calling_) startThread();
      if (running_) return;  // who runs wakes the thread
    }
  }
  if (job)
    return job->refuse(
        std::make_exception_ptr(std::runtime_error("the process group was shut down")));
  wake_.notify_one();
}

void JobQueue::runOrPush(const std::shared_ptr<QueuedJob>& job) {
  Lock lock(mutex_);
  if (closed_ || running_ || !jobs_.empty()) {
    lock.unlock();
    return push(job);
  }
  execute(lock, job);
}

void JobQueue::help(const QueuedJob& job) {
  Lock lock(mutex_);
  const auto isQueued = [&] {
    return std::ranges::any_of(jobs_, [&](const auto& each) { return each.get() == &job; });
  };
  while (!running_ && isQueued()) runFirst(lock);
}

void JobQueue::runFirst(Lock& lock) {
  const auto job = std::move(jobs_.front());
  jobs_.pop_front();
  execute(lock, job);
}

// What waits for the job may issue and await others: nothing is held when it hears of the end.
void JobQueue::execute(Lock& lock, const std::shared_ptr<QueuedJob>& job) {
  running_ = true;
  lock.unlock();
  auto error = job->run();
  lock.lock();
  running_ = false;
  const bool more = !jobs_.empty() || closed_;
  const bool serves = isThread();
  if (serves) ++calling_;
  if (more && serves && calling_ == threads_.size()) startThread();
  lock.unlock();
  if (more) wake_.notify_all();
  job->finish(std::move(error));
  lock.lock();
  if (serves) --calling_;
}

void JobQueue::startThread() {
  threads_.emplace_back([self = shared_from_this()] { self->serve(); });
}

bool JobQueue::isThread() const {
  return std::any_of(threads_.begin(), threads_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

void JobQueue::serve() {
  Lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return !running_ && (closed_ || !jobs_.empty()); });
    if (jobs_.empty()) return;
    runFirst(lock);
  }
}

void JobQueue::close() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  }
  Lock lock(mutex_);
  wake_.wait(lock, [&] { return !running_; });
}

}  // namespace tutti_torch
