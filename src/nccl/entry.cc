#include "src/nccl/entry.h"

#include <new>

#include "src/nccl/config.h"
#include "src/nccl/debug_log.h"

namespace tutti::nccl {

ncclResult_t resultOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument: return ncclInvalidArgument;
    case ErrorCode::InvalidUsage:
    case ErrorCode::Mismatch:
    case ErrorCode::Refused:
    case ErrorCode::Unsupported: return ncclInvalidUsage;
    case ErrorCode::Timeout: return callersKnowTimeout() ? ncclTimeout : ncclRemoteError;
    case ErrorCode::PeerLost:
    case ErrorCode::Aborted: return ncclRemoteError;
    case ErrorCode::OutOfMemory:
    case ErrorCode::System: return ncclSystemError;
    case ErrorCode::Cuda: return ncclUnhandledCudaError;
    case ErrorCode::Internal: break;
  }
  return ncclInternalError;
}

ncclResult_t report(const char* function, const std::exception_ptr& failure) noexcept {
  ncclResult_t result = ncclInternalError;
  try {
    std::string text = std::string(function) + ": ";
    try {
      std::rethrow_exception(failure);
    } catch (const Error& e) {
      result = resultOf(e.code());
      text += e.what();
    } catch (const std::bad_alloc&) {
      result = ncclSystemError;
      text += "out of memory";
    } catch (const std::exception& e) {
      text += e.what();
    }
    DebugLog::ofProcess().failure(text);
  } catch (...) {
    // Without memory for the text there is still the result.
  }
  return result;
}

}  // namespace tutti::nccl
