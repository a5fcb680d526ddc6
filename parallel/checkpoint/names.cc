#include "parallel/checkpoint/names.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>

#include "parallel/tensor/check.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-", kPartial = ".partial";

std::string numbered(const char* format, long long number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string folderName(int64_t step) {
  require(step >= 0, "a checkpoint's step cannot be ", step);
  return numbered("step-%06lld", step);
}

/// The step of a folder that is called exactly so.
std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || rest != end || step < 0 || folderName(step) != name) return {};
  return step;
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
  std::vector<int64_t> steps;
  forEachIn(root, [&](const fs::directory_entry& entry) {
    std::error_code missing;
    const auto step = stepOf(entry.path().filename().string());
    if (step && fs::is_regular_file(entry.path() / kManifestName, missing)) steps.push_back(*step);
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

}  // namespace tutti::parallel
