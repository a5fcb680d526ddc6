#include "src/device/host_stream.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/process.h"

namespace tutti::device {

/// The thread that drives all streams of the process. What the thread touches is State, which it
/// shares: the last stream, and with it the engine, may be released by work that the thread runs.
class Engine {
 public:
  static std::shared_ptr<Engine> ofProcess() {
    static std::mutex mutex;
    static std::weak_ptr<Engine> current;
    std::lock_guard lock(mutex);
    auto engine = current.lock();
    if (!engine || engine->generation_ != base::processGeneration()) {
      engine = std::make_shared<Engine>();
      current = engine;
    }
    return engine;
  }

  Engine() : generation_(base::processGeneration()), thread_(&Engine::run, state_) {
    pthread_setname_np(thread_.native_handle(), "tutti-engine");
  }

  ~Engine() {
    if (generation_ != base::processGeneration()) {  // a forked child: the thread is not here
      thread_.detach();
      return;
    }
    {
      std::lock_guard lock(state_->mutex);
      state_->stop = true;
    }
    state_->wake.notify_all();
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();
    else
      thread_.join();
  }

  void add(const std::shared_ptr<HostStream>& stream) {
    std::lock_guard lock(state_->mutex);
    std::erase_if(state_->streams, [](const auto& s) { return s.expired(); });
    state_->streams.push_back(stream);
  }

  void notify() {
    {
      std::lock_guard lock(state_->mutex);
      state_->pending = true;
    }
    state_->wake.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::weak_ptr<HostStream>> streams;
    bool pending = false;  // something was enqueued since the thread looked
    bool stop = false;
  };

  static void run(std::shared_ptr<State> state) {
    base::Backoff backoff(false);
    bool busy = false;  // some stream has work left
    std::vector<std::weak_ptr<HostStream>> streams;
    while (true) {
      {
        std::unique_lock lock(state->mutex);
        state->wake.wait(lock, [&] { return state->stop || busy || state->pending; });
        if (state->stop) return;
        state->pending = false;
        streams = state->streams;
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
      if (moved)
        backoff.reset();
      else if (busy)
        backoff.idle();
    }
  }

  const uint64_t generation_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

std::shared_ptr<HostStream> HostStream::create() {
  auto engine = Engine::ofProcess();
  std::shared_ptr<HostStream> stream(new HostStream(engine));
  engine->add(stream);
  return stream;
}

HostStream::HostStream(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)), generation_(base::processGeneration()) {}

HostStream::~HostStream() = default;

void HostStream::enqueue(std::unique_ptr<Work> work) {
  if (generation_ != base::processGeneration())
    base::fail(ErrorCode::InvalidUsage, "a stream of the parent process was used after fork");
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
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
  std::unique_ptr<Work> finished;  // destroyed without the lock
  {
    std::lock_guard lock(mutex_);
    finished = std::move(queue_.front());
    queue_.pop_front();
    if (failure && !failure_) failure_ = failure;
    if (queue_.empty()) idle_.notify_all();
  }
  return Work::Status::Moved;
}

void HostStream::wait(std::unique_lock<std::mutex>& lock) {
  if (generation_ != base::processGeneration()) return;
  idle_.wait(lock, [&] { return queue_.empty(); });
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  wait(lock);
  if (auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

bool HostStream::query() {
  std::lock_guard lock(mutex_);
  if (auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  return queue_.empty();
}

std::exception_ptr HostStream::takeFailure() {
  std::unique_lock lock(mutex_);
  wait(lock);
  return std::exchange(failure_, nullptr);
}

uint64_t HostEvent::mark() {
  std::lock_guard lock(mutex_);
  return ++marked_;
}

void HostEvent::reach(uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    reached_ = std::max(reached_, number);
  }
  changed_.notify_all();
}

uint64_t HostEvent::latest() const {
  std::lock_guard lock(mutex_);
  return marked_;
}

bool HostEvent::reached(uint64_t number) const {
  std::lock_guard lock(mutex_);
  return reached_ >= number;
}

void HostEvent::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_ >= number; });
}

}  // namespace tutti::device
