#pragma once

// ServiceThread: a named thread with all signals blocked, because signals are the program's.

#include <functional>
#include <thread>

namespace tutti::base {

class ServiceThread {
 public:
  ServiceThread() = default;
  ~ServiceThread() { finish(); }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  /// `name` has at most 15 characters. `body` must own what it uses. Throws System when the process
  /// may have no more threads.
  void start(const char* name, std::function<void()> body);
  /// The same for a body that ends by itself: nobody waits for the thread, and nothing of it stays.
  static void startAlone(const char* name, std::function<void()> body);
  /// Waits for the end of the body; when called by the body itself, lets it run out alone.
  void finish();
  /// Whether the caller is the body. Not while start() runs.
  bool runsHere() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  std::thread thread_;
};

}  // namespace tutti::base
