#pragma once

// What the samples print, taken apart.

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace tutti::parallel {

using tests::Output;
using tests::runProgram;

/// Of each step, as they are printed.
inline std::vector<std::string> losses(const Output& output) {
  EXPECT_EQ(output.exitCode, 0) << output.text;
  std::vector<std::string> all;
  const std::string label = "  loss ";
  for (size_t at = 0; (at = output.text.find(label, at)) != std::string::npos;) {
    at += label.size();
    all.push_back(output.text.substr(at, output.text.find('\n', at) - at));
  }
  return all;
}

/// All groups of all matches, as numbers.
inline std::vector<double> numbers(const Output& output, const std::string& pattern) {
  std::vector<double> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(output.text.begin(), output.text.end(), regex), end; at != end; ++at)
    for (size_t group = 1; group < at->size(); ++group) found.push_back(std::stod((*at)[group]));
  return found;
}

/// `command` says once what is wrong.
inline void expectRefusal(const std::string& command, int exitCode, const std::string& named) {
  const Output output = runProgram(command);
  EXPECT_EQ(output.exitCode, exitCode) << command << "\n" << output.text;
  EXPECT_EQ(output.count(named), 1) << command << "\n" << output.text;
}

/// What rank 0 holds and sends.
inline std::string use(const Output& output) {
  const size_t at = output.text.find("rank 0 of ");
  EXPECT_NE(at, std::string::npos) << output.text;
  return at == std::string::npos ? "" : output.text.substr(at);
}

/// The bound is relative.
inline void expectClose(const std::vector<std::string>& some,
                        const std::vector<std::string>& others, double bound,
                        const std::string& what) {
  ASSERT_EQ(some.size(), others.size()) << what;
  for (size_t i = 0; i < some.size(); ++i) {
    const double value = std::stod(some[i]), other = std::stod(others[i]);
    EXPECT_NEAR(value, other, bound * std::abs(other)) << what << ", step " << i + 1;
  }
}

}  // namespace tutti::parallel
