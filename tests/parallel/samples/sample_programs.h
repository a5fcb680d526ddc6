#pragma once

// The programs of the samples, for tests that run them as their users do.

#include <string>

#include "tests/parallel/samples/sample_output.h"

namespace tutti::parallel {

/// The folder that they are in: an argument of the test.
inline std::string programs;

inline Output run(const std::string& command) { return runProgram(programs + "/" + command); }

/// `command` ends with this code, and says once what is wrong.
inline void expectRefused(const std::string& command, int exitCode, const std::string& named) {
  expectRefusal(programs + "/" + command, exitCode, named);
}

}  // namespace tutti::parallel
