#include "src/base/check.h"

#include <cstring>

namespace tutti {

const char* toString(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument: return "invalid argument";
    case ErrorCode::InvalidUsage: return "invalid usage";
    case ErrorCode::Mismatch: return "mismatch";
    case ErrorCode::Timeout: return "timeout";
    case ErrorCode::PeerLost: return "peer lost";
    case ErrorCode::Aborted: return "aborted";
    case ErrorCode::Refused: return "refused";
    case ErrorCode::OutOfMemory: return "out of memory";
    case ErrorCode::System: return "system error";
    case ErrorCode::Unsupported: return "unsupported";
    case ErrorCode::Cuda: return "CUDA error";
    case ErrorCode::Internal: return "internal error";
  }
  return "unknown";
}

namespace base {

void failAssert(const char* file, int line, const char* condition, const std::string& operands) {
  fail(ErrorCode::Internal, "Tutti is wrong: ", file, ":", line, ": ", condition, ": ", operands);
}

void failSyscall(const char* call, int error, const std::string& context) {
  const char* name = strerrorname_np(error);
  fail(ErrorCode::System, call, " failed: ", name ? name : "?", " (", strerrordesc_np(error), ")",
       context.empty() ? "" : ": ", context);
}

}  // namespace base
}  // namespace tutti
