#pragma once

// What the command lines of all programs have in common: how they are read and refused, and how
// errors are said.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/check.h"

namespace tutti::tools {

/// The parser of a program's words. --help shows the default of each flag that has one.
class CommandLine final : public CLI::App {
 public:
  /// `program` is what people type: "tutti perf".
  CommandLine(std::string about, std::string program);

  /// A flag that names a file to be written, or "-" for standard output: see OutputFile.
  CLI::Option* addOutput(const std::string& names, std::string& file, const std::string& what);

  /// The exit code where nothing is left to do: 0 after --help, and 2 for what is no command line,
  /// with the reason on standard error. A flag that does not exist has the nearest one proposed.
  std::optional<int> read(int argc, const char* const* argv);
  /// Says why the command line is refused. Returns 2.
  int refuse(const std::string& reason) const;
  /// That there is no such flag, and which one is near.
  std::string noFlag(const std::string& word) const;

 private:
  struct Output {
    const CLI::Option* option;
    const std::string* file;
  };

  /// Throws CLI::ValidationError where two files are to be standard output.
  void requireOneOnStandardOutput() const;
  std::string reasonOf(const CLI::ParseError& error) const;

  std::vector<Output> outputs_;
};

/// Prints "tutti perf: what went wrong" to standard error.
void sayError(const std::string& program, const std::string& what);

/// What `run` returns, or `failed` of the error that it throws, which is said.
int saidErrors(const std::string& program, const std::function<int()>& run,
               const std::function<int(ErrorCode)>& failed);

/// A program from its command line to its exit code: that of `parse` where nothing is left to do,
/// else that of `run`. An error is said, and is 2 where the command line is wrong, else 1; an
/// InvalidArgument of `run` is `invalidInRun`.
template <class Options>
int runProgram(const std::string& program, const std::function<std::variant<Options, int>()>& parse,
               const std::function<int(const Options&)>& run, int invalidInRun = 2) {
  std::variant<Options, int> parsed = 0;
  int invalid = 2;
  return saidErrors(
      program,
      [&] {
        parsed = parse();
        if (const int* code = std::get_if<int>(&parsed)) return *code;
        invalid = invalidInRun;
        return run(std::get<Options>(parsed));
      },
      [&](ErrorCode code) { return code == ErrorCode::InvalidArgument ? invalid : 1; });
}

}  // namespace tutti::tools
