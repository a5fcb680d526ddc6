#pragma once

// Command lines that name a program: options, then the program with words of its own.

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tutti::tools {

/// Parses the options of `app`, which end at "--" or at the first word that does not begin with
/// '-'. Returns the words behind them: the program and its arguments, untouched. `argv[0]` is the
/// sub-command's name. Throws CLI::ParseError, also where no program is named.
std::vector<std::string> parseBeforeProgram(CLI::App& app, int argc, const char* const* argv);

/// Prints the help that was asked for and returns 0, or prints what is wrong, behind the command's
/// name, and returns 2.
int exitCodeOf(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tutti::tools
