// ncclGetVersion, ncclGetUniqueId, errors, logging.

#include <cstring>
#include <string>

#include <tutti/communicator.h>

#include "src/base/check.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/entry.h"
#include "src/nccl/environment.h"
#include "src/nccl/reductions.h"

using namespace tutti::nccl;

ncclResult_t pncclGetVersion(int* version) {
  return guard("ncclGetVersion", [&] {
    TUTTI_REQUIRE(version, "version is null");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclGetVersion);

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guard("ncclGetUniqueId", [&] {
    announce();
    TUTTI_REQUIRE(uniqueId, "uniqueId is null");
    const std::string& address = environment().rendezvousAddress;
    tutti::UniqueId id;
    try {
      id = address.empty() ? tutti::UniqueId::create() : tutti::UniqueId::at(address);
    } catch (const tutti::Error& e) {
      if (address.empty()) throw;
      tutti::base::fail(e.code(), "NCCL_COMM_ID: ", e.what());
    }
    std::memcpy(uniqueId, id.bytes.data(), sizeof *uniqueId);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclGetUniqueId);

// Programs and their users look for these sentences.
const char* pncclGetErrorString(ncclResult_t result) {
  switch (numberOf(result)) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclTimeout: return "timeout";
  }
  return "unknown result code";
}
TUTTI_NCCL_NAME(ncclGetErrorString);

const char* pncclGetLastError(ncclComm_t) {
  // Each thread has a copy, which others do not change while it is read.
  thread_local std::string copy;
  try {
    copy = DebugLog::ofProcess().lastFailure();
  } catch (...) {
    copy.clear();
  }
  return copy.c_str();
}
TUTTI_NCCL_NAME(ncclGetLastError);

// NCCL exports this one too.
extern "C" void ncclResetDebugInitInternal() {
  guard("ncclResetDebugInit", [] {
    DebugLog::ofProcess().reset();
    return ncclSuccess;
  });
}

void pncclResetDebugInit() { ncclResetDebugInitInternal(); }
TUTTI_NCCL_NAME(ncclResetDebugInit);
