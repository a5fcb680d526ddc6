#pragma once

// `tutti doctor`: what is wrong or slow on this machine for Tutti, why it matters, and the command
// that mends it.

#include <span>
#include <string>
#include <variant>

#include "src/tools/doctor/doctor_checks.h"

namespace tutti::tools {

struct DoctorOptions {
  int ranks = 0;         ///< on this host; 0: one for each core that this process may use
  std::string jsonFile;  ///< empty: none
  std::string nccl;      ///< a program, of whose NCCL alone is to be told; or empty
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do.
std::variant<DoctorOptions, int> parseDoctor(int argc, const char* const* argv);

/// For people: a line for what is in order, more for what is not.
std::string doctorText(std::span<const Finding> findings, int ranks);
/// The same of one program's NCCL.
std::string doctorNcclText(const Finding& finding, const std::string& program);
std::string doctorNcclJson(const Finding& finding, const std::string& program);
/// For programs, one line; docs/reference/commands.md lists the fields.
std::string doctorJson(std::span<const Finding> findings, int ranks);

/// Runs the sub-command. Returns the exit code: 0 when nothing is wrong or slow, 1 when something
/// is, 2 for a wrong command line.
int doctorMain(int argc, char** argv);

}  // namespace tutti::tools
