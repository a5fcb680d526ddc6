#pragma once

// How a call ended that is expected to throw.

#include <gtest/gtest.h>

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

/// What the InvalidArgument says that `call` throws; "accepted" where it throws nothing.
inline std::string refusalOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::InvalidArgument) << e.what();
    return e.what();
  }
  return "accepted";
}

inline void expectError(const Outcome& outcome, ErrorCode code, const std::string& words) {
  EXPECT_EQ(outcome.code, code) << outcome.text;
  EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text << "\n  lacks: " << words;
}

}  // namespace tutti::tests
