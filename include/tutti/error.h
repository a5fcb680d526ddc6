#pragma once

/// \file
/// The library's only exception type, and the kinds of failure that it reports.

#include <stdexcept>
#include <string>

namespace tutti {

/// What went wrong, in terms that a caller can act on.
enum class ErrorCode {
  InvalidArgument,  ///< an argument of this call cannot be right on any rank
  InvalidUsage,     ///< the call is not allowed now: wrong order, thread or state
  Mismatch,         ///< ranks called different collectives, or with different arguments
  Timeout,          ///< a deadline passed; the message names the rank that was waited for
  PeerLost,         ///< another rank died, or left too early
  Aborted,          ///< abort() was called, on this rank or another
  Refused,          ///< set-up did not accept the authentication, world size or rank
  OutOfMemory,      ///< an allocation failed; the message says how many bytes and what for
  System,           ///< a system call failed; the message has its name and errno
  Unsupported,      ///< this build or machine cannot do it
  Cuda,             ///< a CUDA call failed; the message has the call, its error and the device
  Internal,         ///< a bug in Tutti
};

const char* toString(ErrorCode code);

/// Every function of Tutti that fails throws it. `what()` is one complete sentence. It names rank,
/// host, peer and operation as far as they are known.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tutti
