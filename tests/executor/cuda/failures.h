#pragma once

// What tests of failing launches look at.

#include <gtest/gtest.h>

#include <string>

#include "tests/executor/cuda/calls.h"

namespace tutti::tests {

/// Code and text of a rank's failure; `Internal` and nothing where there is none.
inline Error failureOf(DeviceRanks& ranks, int rank) {
  return ranks.interpreter(rank).failure().value_or(Error(ErrorCode::Internal, ""));
}

inline void expectNames(const Error& error, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << part << " is not in: " << error.what();
}

/// Launches of all ranks end without success; some rank has an error of this code.
inline Error firstOf(DeviceRanks& ranks, ErrorCode code) {
  for (int r = 0; r < ranks.size(); ++r) ranks.wait(r);
  Error found(ErrorCode::Internal, "no rank has that error");
  for (int r = 0; r < ranks.size(); ++r) {
    const Error error = failureOf(ranks, r);
    EXPECT_TRUE(error.code() == code || error.code() == ErrorCode::PeerLost)
        << "rank " << r << ": " << error.what();
    if (error.code() == code) found = error;
  }
  EXPECT_EQ(found.code(), code) << found.what();
  return found;
}

}  // namespace tutti::tests
