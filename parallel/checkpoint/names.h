#pragma once

// How the folders and files of checkpoints are called, and which there are. Below one root:
//
//   step-000123/                complete: it got this name in one stroke when all of it was there
//     rank-00000.safetensors    one file for each rank that had something to write
//     manifest.json
//   step-000124.partial/        being written or removed, or what is left of that
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
/// The folder of the last of them.
std::optional<std::filesystem::path> latestCheckpoint(const std::filesystem::path& root);
/// The folders of incomplete ones.
std::vector<std::filesystem::path> partialCheckpoints(const std::filesystem::path& root);

}  // namespace tutti::parallel
