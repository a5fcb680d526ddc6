#include "parallel/checkpoint/names.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>

#include "parallel/checkpoint/file.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-", kPartial = ".partial", kDamaged = ".damaged";
constexpr std::string_view kRank = "rank-";

std::string numbered(const char* format, long long number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string folderName(int64_t step) {
  require(step >= 0, "a checkpoint's step cannot be ", step);
  return numbered("step-%06lld", step);
}

/// The number behind `prefix`, as far as there are digits.
template <class Number>
std::optional<Number> numberOf(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return {};
  Number number = 0;
  const auto [rest, error] =
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  if (error != std::errc() || number < 0) return {};
  return number;
}

/// The step of a folder that is called exactly so.
std::optional<int64_t> stepOf(std::string_view name) {
  const auto step = numberOf<int64_t>(kPrefix, name);
  return step && folderName(*step) == name ? step : std::nullopt;
}

bool isCheckpointFile(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const auto rank = numberOf<int>(kRank, name);
  std::error_code unknown;
  return entry.symlink_status(unknown).type() == fs::file_type::regular &&
         (name == kManifestName || (rank && shardName(*rank) == name));
}

void forEachIn(const fs::path& root, const std::function<void(const fs::directory_entry&)>& visit) {
  std::error_code why;
  fs::directory_iterator entry(root, why);
  if (why == std::errc::no_such_file_or_directory) return;
  for (; !why && entry != fs::directory_iterator(); entry.increment(why)) visit(*entry);
  if (why) fail(ErrorCode::System, "cannot read ", root.string(), ": ", why.message());
}

}  // namespace

fs::path checkpointPath(const fs::path& root, int64_t step) { return root / folderName(step); }

fs::path partialPath(const fs::path& root, int64_t step) {
  return root / (folderName(step) + std::string(kPartial));
}

std::string shardName(int rank) {
  require(rank >= 0, "a rank cannot be ", rank);
  return numbered("rank-%05lld.safetensors", rank);
}

std::vector<int64_t> checkpointSteps(const fs::path& root) {
  std::vector<int64_t> steps = stepsOfFolders(root);
  std::erase_if(steps, [&](int64_t step) {
    std::error_code missing;
    return !fs::is_regular_file(checkpointPath(root, step).append(kManifestName), missing);
  });
  return steps;
}

std::vector<int64_t> stepsOfFolders(const fs::path& root) {
  std::vector<int64_t> steps;
  forEachIn(root, [&](const fs::directory_entry& entry) {
    std::error_code missing;
    const auto step = stepOf(entry.path().filename().string());
    if (step && entry.is_directory(missing)) steps.push_back(*step);
  });
  std::ranges::sort(steps);
  return steps;
}

std::optional<fs::path> latestCheckpoint(const fs::path& root) {
  const std::vector<int64_t> steps = checkpointSteps(root);
  if (steps.empty()) return {};
  return checkpointPath(root, steps.back());
}

std::vector<fs::path> partialCheckpoints(const fs::path& root) {
  std::vector<fs::path> folders;
  forEachIn(root, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kPartial) &&
        stepOf(std::string_view(name).substr(0, name.size() - kPartial.size())))
      folders.push_back(entry.path());
  });
  return folders;
}

bool hasCheckpointFilesOnly(const fs::path& folder) {
  std::error_code missing;
  if (fs::symlink_status(folder, missing).type() != fs::file_type::directory) return false;
  bool only = true;
  forEachIn(folder,
            [&](const fs::directory_entry& entry) { only = only && isCheckpointFile(entry); });
  return only;
}

bool removeCheckpoint(const fs::path& folder) {
  if (!hasCheckpointFilesOnly(folder)) return false;
  const auto remove = [](const fs::path& path) {
    std::error_code why;
    fs::remove(path, why);
    if (why) fail(ErrorCode::System, "cannot remove ", path.string(), ": ", why.message());
  };
  std::vector<fs::path> files;
  forEachIn(folder, [&](const fs::directory_entry& entry) { files.push_back(entry.path()); });
  for (const fs::path& file : files) remove(file);
  remove(folder);
  return true;
}

fs::path setAside(const fs::path& checkpoint) {
  std::error_code missing;
  for (int i = 1;; ++i) {
    fs::path name = checkpoint;
    name += std::string(kDamaged) + (i == 1 ? "" : numbered("-%lld", i));
    if (fs::symlink_status(name, missing).type() != fs::file_type::not_found) continue;
    renameNew(checkpoint, name);
    return name;
  }
}

}  // namespace tutti::parallel
