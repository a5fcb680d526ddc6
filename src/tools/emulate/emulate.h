#pragma once

// `tutti emulate [--devices N] [--] PROGRAM ARGS`: starts a program on emulated GPUs.

#include <string>
#include <variant>
#include <vector>

namespace tutti::tools {

/// As many as the emulation allows.
constexpr int kMostEmulatedDevices = 16;

struct EmulateOptions {
  int devices = 0;  ///< 0: what TUTTI_EMULATION_DEVICES says, otherwise 2
  std::vector<std::string> command;
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Options end at "--" or at the first word that does not begin with '-',
/// which is the program.
std::variant<EmulateOptions, int> parseEmulate(int argc, const char* const* argv);

/// Becomes the program. Returns an exit code only where that fails: 2 for a wrong command line, 127
/// where there is no such program, 126 where it cannot be executed or emulated, 1 where the
/// emulation is not installed.
int emulateMain(int argc, char** argv);

}  // namespace tutti::tools
