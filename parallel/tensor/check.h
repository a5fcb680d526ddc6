#pragma once

// Checks for the training library: the caller is wrong (require), this library is wrong (ensure).
// Both print their operands. They are its own because an installed Tutti exports its public
// interface only, and this library is to need no more than any other user has.

#include <cstdint>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include <tutti/error.h>

namespace tutti::parallel {

/// Joins its arguments as operator<< prints them.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, message(parts...));
}

/// Throws InvalidArgument with the joined parts when `condition` is false.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(ErrorCode::InvalidArgument, parts...);
}

/// Throws Internal: a bug in this library. Stays on in release builds, off the per-element path.
template <class... Parts>
void ensure(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(ErrorCode::Internal, parts...);
}

/// What `make` returns. Where there is no memory for it, throws OutOfMemory that begins with
/// `what`, which came in so many bytes.
template <class Make>
auto inMemory(const std::string& what, uint64_t bytes, const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more than an object can have
  }
  fail(ErrorCode::OutOfMemory, what, ": there is no memory for what its ", bytes, " bytes hold");
}

}  // namespace tutti::parallel
