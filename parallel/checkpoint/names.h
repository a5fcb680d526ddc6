#pragma once

// How the folders and files of checkpoints are called, and which there are. Below one root:
//
//   step-000123/                complete: it got this name in one stroke when all of it was there
//     rank-00000.safetensors    one file for each rank that had something to write
//     manifest.json
//   step-000124.partial/        being written or removed, or what is left of that
//   step-000121.damaged/        set aside by a run that found it damaged, for you to look at
//
// No file says which one is the latest: the names do.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::parallel {

inline constexpr const char* kManifestName = "manifest.json";

std::filesystem::path checkpointPath(const std::filesystem::path& root, int64_t step);
/// Where a checkpoint is written before it is complete.
std::filesystem::path partialPath(const std::filesystem::path& root, int64_t step);
std::string shardName(int rank);  ///< "rank-00000.safetensors"

/// The steps of the complete checkpoints below `root`, ascending; none when there is no such
/// folder. Throws System when it cannot be read.
std::vector<int64_t> checkpointSteps(const std::filesystem::path& root);
/// The same of all folders with such names, also of those that have no manifest.
std::vector<int64_t> stepsOfFolders(const std::filesystem::path& root);
/// The folder of the last complete one.
std::optional<std::filesystem::path> latestCheckpoint(const std::filesystem::path& root);
/// The folders of incomplete ones.
std::vector<std::filesystem::path> partialCheckpoints(const std::filesystem::path& root);

/// Whether all that a folder has is what checkpoints have. False for what is no folder, or a link.
bool hasCheckpointFilesOnly(const std::filesystem::path& folder);
/// Removes the folder of a checkpoint; false, and nothing is removed, when it has anything else.
bool removeCheckpoint(const std::filesystem::path& folder);
/// Renames a checkpoint, so that nobody takes it for one; nothing is removed. Returns its new name.
std::filesystem::path setAside(const std::filesystem::path& checkpoint);

}  // namespace tutti::parallel
