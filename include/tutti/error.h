#pragma once

// The one exception type of the library, and the kinds of failure it reports.

#include <stdexcept>
#include <string>

namespace tutti {

/// What went wrong, in the terms a caller can act on.
enum class ErrorCode {
  InvalidArgument,  ///< an argument of this call cannot be right on any rank
  InvalidUsage,     ///< the call is not allowed now (order, thread, or state)
  Mismatch,         ///< ranks disagree about the call they are in
  Timeout,          ///< a deadline passed; the message names who was waited for
  PeerLost,         ///< another rank died, or left too early
  Aborted,          ///< abort() was called here or on another rank
  Refused,          ///< set-up: authentication, world size, or rank was not accepted
  OutOfMemory,      ///< memory could not be had; the message says how much and what for
  System,           ///< a system call failed; the message has its name and errno
  Unsupported,      ///< this build or machine cannot do it
  Cuda,             ///< a call of CUDA failed; the message has the call, its error and the device
  Internal,         ///< a bug in Tutti
};

const char* toString(ErrorCode code);

/// Thrown by every function of Tutti that fails. `what()` is one complete sentence that names rank,
/// host, peer and operation where they are known.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tutti
