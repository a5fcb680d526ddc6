#pragma once

// The C boundary: what every entry point has around it. Nothing that is thrown below crosses it.

#include <exception>

#include <tutti-nccl/nccl.h>

#include <tutti/error.h>

namespace tutti::nccl {

ncclResult_t resultOf(ErrorCode code);

/// What `failure` is as a result. Its text, with the function's name, is kept and logged.
ncclResult_t report(const char* function, const std::exception_ptr& failure) noexcept;

/// Runs a body that returns a result or throws.
template <class Body>
ncclResult_t guard(const char* function, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    return report(function, std::current_exception());
  }
}

}  // namespace tutti::nccl

/// The plain name of an entry point that is defined in this file as p##name: weak, so that a
/// profiler's definition goes before it.
#define TUTTI_NCCL_NAME(name) \
  extern "C" decltype(p##name) name __attribute__((weak, alias("p" #name)))
