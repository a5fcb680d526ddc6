#pragma once

// What the library behind NCCL's functions says when it refuses something.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include <tutti/error.h>

namespace tutti::nccl {

/// "invalid argument: ...", or "accepted".
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(toString(error.code())) + ": " + error.what();
  }
  return "accepted";
}

}  // namespace tutti::nccl
