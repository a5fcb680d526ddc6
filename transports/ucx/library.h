#pragma once

// libucp, loaded when the first worker is made, so that a program on one host neither links nor
// initialises UCX. What UCX would do to its host process when it is loaded is undone, unless the
// user has asked for it by UCX's own variables: it keeps no signal handlers (UCX_HANDLE_ERRORS,
// UCX_DEBUG_SIGNO), and its log lines go to our log instead of to standard output (UCX_LOG_LEVEL,
// UCX_LOG_FILE).

#include <ucp/api/ucp.h>

#include "transports/ucx/quirks.h"

namespace tutti::transports::ucx {

/// The functions that are used, named as in ucp.h.
struct UcxLibrary {
  decltype(&ucp_config_read) configRead;
  decltype(&ucp_config_modify) configModify;
  decltype(&ucp_config_release) configRelease;
  decltype(&ucp_init_version) initVersion;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_context_query) contextQuery;
  decltype(&ucp_context_print_info) contextPrintInfo;
  decltype(&ucp_worker_create) workerCreate;
  decltype(&ucp_worker_destroy) workerDestroy;
  decltype(&ucp_worker_get_address) workerGetAddress;
  decltype(&ucp_worker_release_address) workerReleaseAddress;
  decltype(&ucp_worker_set_am_recv_handler) workerSetAmRecvHandler;
  decltype(&ucp_worker_progress) workerProgress;
  decltype(&ucp_worker_get_efd) workerGetEfd;
  decltype(&ucp_worker_arm) workerArm;
  decltype(&ucp_ep_create) epCreate;
  decltype(&ucp_ep_close_nbx) epCloseNbx;
  decltype(&ucp_ep_flush_nbx) epFlushNbx;
  decltype(&ucp_am_send_nbx) amSendNbx;
  decltype(&ucp_am_recv_data_nbx) amRecvDataNbx;
  decltype(&ucp_request_check_status) requestCheckStatus;
  decltype(&ucp_request_free) requestFree;
  decltype(&ucs_status_string) statusString;
  UcxVersion version;
};

/// Throws Unsupported saying what is missing.
const UcxLibrary& library();

}  // namespace tutti::transports::ucx
