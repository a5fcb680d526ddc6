#pragma once

// The three kinds of failure and their checks, each of which prints its operands:
//   TUTTI_REQUIRE  the caller is wrong          InvalidArgument
//   TUTTI_ASSERT   Tutti is wrong               Internal; also on in release builds
//   TUTTI_SYSCALL  the world failed             System, with errno in words

#include <cerrno>
#include <sstream>
#include <string>

#include <tutti/error.h>

namespace tutti::base {

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

[[noreturn]] void failAssert(const char* file, int line, const char* condition,
                             const std::string& operands);
/// Throws System with `call`, errno's name and text, and `context`.
[[noreturn]] void failSyscall(const char* call, int error, const std::string& context = {});

}  // namespace tutti::base

#define TUTTI_REQUIRE(condition, ...)                                        \
  do {                                                                       \
    if (!(condition)) [[unlikely]]                                           \
      ::tutti::base::fail(::tutti::ErrorCode::InvalidArgument, __VA_ARGS__); \
  } while (false)

#define TUTTI_ASSERT(condition, ...)                                  \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::tutti::base::failAssert(__FILE__, __LINE__, #condition,       \
                                ::tutti::base::message(__VA_ARGS__)); \
  } while (false)

/// Evaluates to the call's result; retries EINTR; throws when it is negative.
#define TUTTI_SYSCALL(call)                                    \
  ([&] {                                                       \
    decltype(call) result_;                                    \
    do {                                                       \
      result_ = (call);                                        \
    } while (result_ < 0 && errno == EINTR);                   \
    if (result_ < 0) ::tutti::base::failSyscall(#call, errno); \
    return result_;                                            \
  }())
