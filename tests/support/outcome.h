#pragma once

// How a call ended that is expected to throw.

#include <functional>
#include <string>

#include <tutti/error.h>

namespace tutti::tests {

struct Outcome {
  ErrorCode code = ErrorCode::Unsupported;
  std::string text = "no error";
};

inline Outcome outcomeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

}  // namespace tutti::tests
