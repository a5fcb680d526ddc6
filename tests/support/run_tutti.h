#pragma once

// Runs the `tutti` command, or another one, as a person would, and says what came of it.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace tutti::launcher {

using tests::contains;
using tests::TemporaryFolder;

extern std::string tuttiPath;  ///< the executable; an argument of the test program

struct Result {
  int exitCode = -1;  ///< 128 + signal when it was killed
  std::string out, err;
};

/// A started command, which dies with the test. Kills it, and fails the test, when it has not ended
/// in time.
class Command {
 public:
  /// Program, looked for on PATH, and arguments. Standard input is `inputText`; `variables` are
  /// "NAME=value", beside the test's own.
  explicit Command(std::vector<std::string> words, const std::string& inputText = {},
                   const std::vector<std::string>& variables = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// What it has written to standard output so far.
  std::string outputSoFar() const;
  /// Waits until it has written `text`; false when it did not in time.
  bool waitForOutput(const std::string& text) const;
  Result wait();

 private:
  std::string name_;
  int outFile_ = -1, errFile_ = -1;
  pid_t pid_ = -1;
  bool waited_ = false;
};

/// `tutti` with these arguments.
class Running : public Command {
 public:
  explicit Running(std::vector<std::string> arguments, const std::string& inputText = {});
};

/// Names of the programs with nccl-tests' names, and where one is: beside `tutti`.
extern const std::vector<std::string> ncclPerfPrograms;
std::string besideTutti(const std::string& program);

Result runTutti(std::vector<std::string> arguments, const std::string& inputText = {});
/// `tutti run -n ranks -- sh -c script`.
Result runShell(int ranks, const std::string& script);

/// Polls until `condition` holds, up to a deadline that only a broken program reaches.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit);

/// Whether a process with this id exists, and is no zombie.
bool alive(pid_t pid);

std::vector<std::string> lines(const std::string& text);

}  // namespace tutti::launcher
