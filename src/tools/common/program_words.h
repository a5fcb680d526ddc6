#pragma once

// Command lines that name a program: options, then the program with words of its own.

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

class CommandLine;

/// Reads the options of `app`, which end at "--" or at the first word that does not begin with
/// '-', and puts the words behind them, the program and its arguments, into `program`, untouched.
/// `argv[0]` is the sub-command's name. Returns as CommandLine::read() does: 2 also where no
/// program is named.
std::optional<int> readBeforeProgram(CommandLine& app, int argc, const char* const* argv,
                                     std::vector<std::string>& program);

}  // namespace tutti::tools
