#pragma once

// Runs a program as its user would, and keeps what it wrote.

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace tutti::tests {

struct Output {
  int exitCode = -1;  ///< 128 + signal when it was killed
  std::string text;   ///< standard output and error

  int count(const std::string& part) const {
    int found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  }
  /// Without its line end.
  std::string lastLine() const {
    const std::string whole = text.substr(0, text.find_last_not_of('\n') + 1);
    return whole.substr(whole.rfind('\n') + 1);
  }
};

/// `command` is a shell's.
inline Output runProgram(const std::string& command) {
  Output output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.text.append(buffer, n);
  const int status = pclose(pipe);
  output.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace tutti::tests
