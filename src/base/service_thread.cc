#include "src/base/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "src/base/check.h"

namespace tutti::base {

void ServiceThread::start(const char* name, std::function<void()> body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    failSyscall("pthread_create", error.code().value(), name);
  }
  ::pthread_setname_np(thread_.native_handle(), name);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ServiceThread::startAlone(const char* name, std::function<void()> body) {
  ServiceThread alone;
  alone.start(name, std::move(body));
  alone.thread_.detach();
}

void ServiceThread::finish() {
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

}  // namespace tutti::base
