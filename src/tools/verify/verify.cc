#include "src/tools/verify/verify.h"

#include <cstdio>
#include <exception>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/names.h"
#include "parallel/huggingface/folder.h"
#include "src/base/check.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/units.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

/// What `verify` says of a sound folder, or what it throws.
template <class Verify>
FolderVerdict verdictOf(const fs::path& folder, const Verify& verify) {
  try {
    return {.folder = folder, .sound = true, .text = verify()};
  } catch (const std::exception& error) {
    return {.folder = folder, .text = error.what()};
  }
}

FolderVerdict verifyCheckpoint(const fs::path& folder) {
  return verdictOf(folder, [&] {
    parallel::CheckpointReader reader(folder);
    reader.requireFiles();
    reader.verify();
    return base::message("sound: step ", reader.step(), ", ",
                         countText(reader.names().size(), "tensor"), " of ",
                         bytesText(reader.bytesRead()), " in ",
                         countText(reader.fileCount(), "file"), ", by their checksums");
  });
}

/// Its files have no checksums.
FolderVerdict verifyWeights(const fs::path& folder) {
  return verdictOf(folder, [&] {
    parallel::readModel(folder);
    return "its headers, lengths and sizes agree; such folders have no checksums, so the numbers "
           "were not checked";
  });
}

}  // namespace

std::variant<VerifyOptions, int> parseVerify(int argc, const char* const* argv) {
  VerifyOptions o;
  CommandLine app(
      "Whether checkpoints are as they were written: every byte against its checksum. Of a folder\n"
      "of transformers, which has none, the headers, lengths and sizes",
      "tutti verify");
  app.add_option("folder", o.folders,
                 "a checkpoint, a folder of checkpoints, or one with a config.json and weights")
      ->required();
  if (const auto code = app.read(argc, argv)) return *code;
  return o;
}

std::vector<FolderVerdict> verifyFolder(const fs::path& folder) {
  std::error_code missing;
  if (!fs::is_directory(folder, missing)) return {{.folder = folder, .text = "this is no folder"}};
  if (fs::exists(folder / parallel::kManifestName, missing)) return {verifyCheckpoint(folder)};
  if (fs::exists(folder / "config.json", missing)) return {verifyWeights(folder)};
  std::vector<FolderVerdict> verdicts;
  for (const int64_t step : parallel::stepsOfFolders(folder))
    verdicts.push_back(verifyCheckpoint(parallel::checkpointPath(folder, step)));
  if (verdicts.empty())
    verdicts.push_back({.folder = folder,
                        .text = "it has neither a manifest.json, nor a config.json, nor folders of "
                                "checkpoints"});
  return verdicts;
}

namespace {

int showVerdicts(const VerifyOptions& options) {
  bool sound = true;
  for (const std::string& folder : options.folders)
    for (const FolderVerdict& verdict : verifyFolder(folder)) {
      sound = sound && verdict.sound;
      std::printf("%s: %s%s\n", verdict.folder.c_str(),
                  verdict.sound ? "" : "NOT SOUND: ", verdict.text.c_str());
    }
  return sound ? 0 : 1;
}

}  // namespace

int verifyMain(int argc, char** argv) {
  return runProgram<VerifyOptions>(
      "tutti verify", [&] { return parseVerify(argc, argv); }, showVerdicts, 1);
}

}  // namespace tutti::tools
