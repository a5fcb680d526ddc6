#include "transports/ucx/library.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "src/base/check.h"
#include "src/base/log.h"

namespace tutti::transports::ucx {
namespace {

constexpr const char* kName = "libucp.so.0";

// What each signal does, to be put back when another has changed it.
class SignalActions {
 public:
  SignalActions() {
    for (size_t i = 1; i < actions_.size(); ++i) {
      struct sigaction action {};
      if (::sigaction(static_cast<int>(i), nullptr, &action) == 0) actions_[i] = action;
    }
  }
  void restore() const {
    for (size_t i = 1; i < actions_.size(); ++i) {
      struct sigaction now {};
      if (!actions_[i] || ::sigaction(static_cast<int>(i), nullptr, &now) != 0) continue;
      if (now.sa_handler != actions_[i]->sa_handler)
        ::sigaction(static_cast<int>(i), &*actions_[i], nullptr);
    }
  }

 private:
  std::array<std::optional<struct sigaction>, NSIG> actions_;
};

// What UCX calls an error comes back as a status, too, which we report; or it is none, like a
// connection that was refused by a process that has ended in order.
LogLevel levelOf(ucs_log_level_t level) {
  switch (level) {
    case UCS_LOG_LEVEL_FATAL: return LogLevel::Error;
    case UCS_LOG_LEVEL_ERROR:
    case UCS_LOG_LEVEL_WARN: return LogLevel::Info;
    default: return LogLevel::Debug;
  }
}

ucs_log_func_rc_t toOurLog(const char*, unsigned, const char*, ucs_log_level_t level,
                           const ucs_log_component_config_t*, const char* format, va_list list) {
  try {
    std::array<char, 1024> line{};
    std::vsnprintf(line.data(), line.size(), format, list);
    base::log(levelOf(level), "UCX: ", line.data());
  } catch (...) {  // C code called this; the line is lost
  }
  return UCS_LOG_FUNC_RC_STOP;
}

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (!function) base::fail(ErrorCode::Unsupported, kName, " has no function ", name);
}

bool anySet(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::getenv(name)) return true;
  return false;
}

// Where the program uses UCX itself, that stays as it is.
void* open() {
  if (void* handle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  const SignalActions before;
  void* handle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    base::fail(ErrorCode::Unsupported,
               "UCX cannot be used here (Debian's package libucx0): ", ::dlerror());
  if (!anySet({"UCX_HANDLE_ERRORS", "UCX_DEBUG_SIGNO"})) before.restore();
  if (!anySet({"UCX_LOG_LEVEL", "UCX_LOG_FILE"})) {
    decltype(&ucs_log_push_handler) pushLogHandler;
    find(handle, "ucs_log_push_handler", pushLogHandler);
    pushLogHandler(&toOurLog);
  }
  return handle;
}

UcxLibrary load() {
  void* const handle = open();
  UcxLibrary l;
  find(handle, "ucp_config_read", l.configRead);
  find(handle, "ucp_config_modify", l.configModify);
  find(handle, "ucp_config_release", l.configRelease);
  find(handle, "ucp_init_version", l.initVersion);
  find(handle, "ucp_cleanup", l.cleanup);
  find(handle, "ucp_context_query", l.contextQuery);
  find(handle, "ucp_context_print_info", l.contextPrintInfo);
  find(handle, "ucp_worker_create", l.workerCreate);
  find(handle, "ucp_worker_destroy", l.workerDestroy);
  find(handle, "ucp_worker_get_address", l.workerGetAddress);
  find(handle, "ucp_worker_release_address", l.workerReleaseAddress);
  find(handle, "ucp_worker_set_am_recv_handler", l.workerSetAmRecvHandler);
  find(handle, "ucp_worker_progress", l.workerProgress);
  find(handle, "ucp_worker_get_efd", l.workerGetEfd);
  find(handle, "ucp_worker_arm", l.workerArm);
  find(handle, "ucp_ep_create", l.epCreate);
  find(handle, "ucp_ep_close_nbx", l.epCloseNbx);
  find(handle, "ucp_ep_flush_nbx", l.epFlushNbx);
  find(handle, "ucp_am_send_nbx", l.amSendNbx);
  find(handle, "ucp_am_recv_data_nbx", l.amRecvDataNbx);
  find(handle, "ucp_request_check_status", l.requestCheckStatus);
  find(handle, "ucp_request_free", l.requestFree);
  find(handle, "ucs_status_string", l.statusString);
  decltype(&ucp_get_version) getVersion = nullptr;
  find(handle, "ucp_get_version", getVersion);
  getVersion(&l.version.major, &l.version.minor, &l.version.release);
  return l;
}

}  // namespace

const UcxLibrary& library() {
  static const UcxLibrary loaded = load();
  return loaded;
}

}  // namespace tutti::transports::ucx
