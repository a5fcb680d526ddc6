#pragma once

// train_gpt on a small text, for tests of several files.

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {

using tests::Output;
using tests::runProgram;

/// The programs, arguments of the test.
inline std::string program, launcher;

inline Output run(const std::string& arguments, const std::string& variables = "") {
  return runProgram(variables + " " + program + " " + arguments);
}

/// A folder with a small text to learn.
class TrainGpt : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(file("text"));
    for (int i = 0; i < 700; ++i) text << "line " << i * i % 97 << " of the text, ";
    std::ofstream empty(file("empty"));
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::string small(const std::string& more) const {
    const bool sized = more.find("--batch ") != std::string::npos;
    return "--text " + file("text") + " --layers 2 --width 32 --heads 2 --context 32 " +
           (sized ? "" : "--batch 8 ") + more;
  }
  void expectRefused(const std::string& arguments, int exitCode, const std::string& named) {
    const Output output = run(arguments);
    EXPECT_EQ(output.exitCode, exitCode) << arguments << "\n" << output.text;
    EXPECT_NE(output.text.find(named), std::string::npos) << arguments << "\n" << output.text;
  }
  /// The values of `key`, one a line of the file, as they are written.
  std::vector<std::string> column(const std::string& name, const std::string& key) const {
    std::ifstream json(file(name));
    std::vector<std::string> values;
    for (std::string line; std::getline(json, line);) {
      const size_t at = line.find("\"" + key + "\":");
      if (at == std::string::npos) return {};
      const size_t begin = at + key.size() + 3;
      values.push_back(line.substr(begin, line.find_first_of(",}", begin) - begin));
    }
    return values;
  }

  const tests::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

}  // namespace tutti::parallel
