#pragma once

// `tutti verify`: whether checkpoints of trainings, and folders of weights, are as they were
// written.

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace tutti::tools {

struct VerifyOptions {
  std::vector<std::string> folders;
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do.
std::variant<VerifyOptions, int> parseVerify(int argc, const char* const* argv);

/// A folder that was looked at, and what is to be said of it.
struct FolderVerdict {
  std::filesystem::path folder;
  bool sound = false;
  std::string text;  ///< of one that is not: the file and the field
};
/// Of a checkpoint, of each in a folder of checkpoints, or of a Hugging Face folder. One verdict at
/// least.
std::vector<FolderVerdict> verifyFolder(const std::filesystem::path& folder);

/// Runs the sub-command. Returns the exit code: 0, 1 when something is not sound, 2 for a wrong
/// command line.
int verifyMain(int argc, char** argv);

}  // namespace tutti::tools
