#include "src/device/host_stream.h"

#include <algorithm>
#include <utility>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/service_thread.h"

namespace tutti::device {
namespace {

// Failures kept apart; beyond them the newest stands for all that follow.
constexpr size_t kMaxFailures = 1024;

}  // namespace

/// The thread that drives all streams of the process. What the thread touches is State, which it
/// shares: the last stream, and with it the engine, may be released by work that the thread runs.
class ProgressEngine {
 public:
  static std::shared_ptr<ProgressEngine> ofProcess() {
    struct Current {
      Current() { base::freeInForkedChildren(mutex); }
      std::mutex mutex;
      std::weak_ptr<ProgressEngine> engine;
    };
    static auto* const current = new Current;
    std::lock_guard lock(current->mutex);
    auto engine = current->engine.lock();
    if (!engine || engine->guard_.inForkedChild()) {
      engine = std::make_shared<ProgressEngine>();
      current->engine = engine;
    }
    return engine;
  }

  ProgressEngine() {
    thread_.start("tutti-engine", [state = state_] { run(*state); });
  }

  ~ProgressEngine() {
    {
      std::lock_guard lock(state_->mutex);
      state_->stop = true;
    }
    state_->wake.notify_all();
    thread_.finish();
  }

  void add(const std::shared_ptr<HostStream>& stream) {
    std::lock_guard lock(state_->mutex);
    std::erase_if(state_->streams, [](const auto& s) { return s.expired(); });
    state_->streams.push_back(stream);
  }

  /// Keeps a stream until its queue is empty.
  void adopt(std::shared_ptr<HostStream> stream) {
    std::lock_guard lock(state_->mutex);
    state_->adopted.push_back(std::move(stream));
  }

  void notify() {
    {
      std::lock_guard lock(state_->mutex);
      state_->pending = true;
    }
    state_->wake.notify_all();
  }

  bool runsHere() const { return thread_.runsHere(); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::weak_ptr<HostStream>> streams;
    std::vector<std::shared_ptr<HostStream>> adopted;
    bool pending = false;  // something was enqueued since the thread looked
    bool stop = false;
  };

  static void run(State& state) {
    base::Backoff backoff(false);
    bool busy = false;  // some stream has work left
    std::vector<std::weak_ptr<HostStream>> streams;
    while (true) {
      {
        std::unique_lock lock(state.mutex);
        state.wake.wait(lock, [&] { return state.stop || busy || state.pending; });
        if (state.stop) return;
        state.pending = false;
        streams = state.streams;
      }
      busy = false;
      bool moved = false;
      for (const auto& weak : streams) {
        const auto stream = weak.lock();
        if (!stream) continue;
        const Work::Status status = stream->step();
        if (status == Work::Status::Done) continue;  // an empty queue
        busy = true;
        moved |= status == Work::Status::Moved;
      }
      releaseAdopted(state);
      if (moved)
        backoff.reset();
      else if (busy)
        backoff.idle();
    }
  }

  static void releaseAdopted(State& state) {
    std::vector<std::shared_ptr<HostStream>> done;  // destroyed without the lock
    std::lock_guard lock(state.mutex);
    std::erase_if(state.adopted, [&](auto& stream) {
      if (!stream->idle()) return false;
      done.push_back(std::move(stream));
      return true;
    });
  }

  const base::ProcessGuard guard_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  base::ServiceThread thread_;
};

std::shared_ptr<HostStream> HostStream::create() {
  auto engine = ProgressEngine::ofProcess();
  std::shared_ptr<HostStream> stream(new HostStream(engine));
  engine->add(stream);
  return stream;
}

HostStream::HostStream(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}

HostStream::~HostStream() {
  if (!failures_.empty()) logUnseen(failures_.front().what);
}

void HostStream::logUnseen(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "a stream was destroyed with a failure nobody saw: ", e.what());
  } catch (...) {
    base::log(LogLevel::Error, "a stream was destroyed with a failure nobody saw");
  }
}

void HostStream::enqueue(std::unique_ptr<Work> work) {
  guard_.requireOwner("Stream::enqueue");
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++enqueued_;
  }
  engine_->notify();
}

Work::Status HostStream::step() {
  Work* head = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) return Work::Status::Done;
    head = queue_.front().get();
  }
  Work::Status status = Work::Status::Done;
  std::exception_ptr failure;
  try {
    status = head->poll();
  } catch (...) {
    failure = std::current_exception();
  }
  if (status != Work::Status::Done) return status;
  finishHead(std::move(failure));
  return Work::Status::Moved;
}

// The work is destroyed before anybody hears of its end: it may be the last owner of a
// communicator, whose farewell is to be over when synchronize() returns. Without the lock, because
// its end may call this stream.
void HostStream::finishHead(std::exception_ptr failure) {
  std::unique_ptr<Work> finished;
  {
    std::lock_guard lock(mutex_);
    finished = std::move(queue_.front());
  }
  finished.reset();
  std::lock_guard lock(mutex_);
  queue_.pop_front();
  ++finished_;
  if (failure && failures_.size() < kMaxFailures)
    failures_.push_back({finished_, finished_, std::move(failure)});
  else if (failure)
    failures_.back().last = finished_;
  progress_.notify_all();
}

void HostStream::wait(std::unique_lock<std::mutex>& lock, uint64_t ticket) {
  if (finished_ < ticket && engine_->runsHere())
    base::fail(ErrorCode::InvalidUsage,
               "work of a stream waits for a stream, which its own thread drives");
  progress_.wait(lock, [&] { return finished_ >= ticket; });
}

std::exception_ptr HostStream::takeFailure(uint64_t ticket) {
  std::exception_ptr first;
  while (!failures_.empty() && failures_.front().first <= ticket) {
    Failure& oldest = failures_.front();
    if (!first) first = oldest.what;
    if (oldest.last > ticket) {
      oldest.first = ticket + 1;
      break;
    }
    failures_.pop_front();
  }
  return first;
}

void HostStream::synchronize() {
  guard_.requireOwner("Stream::synchronize");
  std::unique_lock lock(mutex_);
  const uint64_t ticket = enqueued_;
  wait(lock, ticket);
  if (const auto failure = takeFailure(ticket)) std::rethrow_exception(failure);
}

bool HostStream::query() {
  guard_.requireOwner("Stream::query");
  std::lock_guard lock(mutex_);
  if (const auto failure = takeFailure(finished_)) std::rethrow_exception(failure);
  return queue_.empty();
}

bool HostStream::idle() {
  guard_.requireOwner("Stream::idle");
  std::lock_guard lock(mutex_);
  return queue_.empty();
}

void HostStream::retire(std::shared_ptr<HostStream> stream) {
  if (stream->guard_.inForkedChild()) return base::abandon(std::move(stream));
  const auto engine = stream->engine_;
  if (engine->runsHere()) return engine->adopt(std::move(stream));
  std::unique_lock lock(stream->mutex_);
  stream->wait(lock, stream->enqueued_);
  const auto failure = stream->takeFailure(stream->enqueued_);
  lock.unlock();
  if (failure) logUnseen(failure);
}

void Mark::reach() {
  {
    std::lock_guard lock(mutex_);
    reached_ = true;
  }
  changed_.notify_all();
}

bool Mark::reached() const {
  std::lock_guard lock(mutex_);
  return reached_;
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

void HostEvent::record(std::shared_ptr<Mark> mark) {
  std::lock_guard lock(mutex_);
  latest_ = std::move(mark);
}

std::shared_ptr<Mark> HostEvent::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace tutti::device
