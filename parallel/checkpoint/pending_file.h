#pragma once

// Files that get their names when they are whole. Until then a file lies beside the place that it
// is for, under a name that was made for it alone. So a full disk, a kill or lost power leaves what
// had the name before, and nothing is removed that was not made here.

#include <filesystem>
#include <functional>
#include <string_view>

#include "parallel/checkpoint/file.h"

namespace tutti::parallel {

class PendingFile {
 public:
  enum class Existing { Refuse, Replace };  ///< what becomes of a file that has the name
  /// Makes the file beside `target` or, where that is a symbolic link, beside what it leads to.
  explicit PendingFile(const std::filesystem::path& target);
  ~PendingFile();  ///< removes it unless it was published
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  File& file() { return file_; }
  /// Syncs the file and gives it its name at one stroke. One that it replaces hands down its mode.
  /// Refuse throws InvalidUsage when something has the name.
  void publish(Existing existing);

 private:
  std::filesystem::path target_;
  File file_;
  bool published_ = false;
};

/// Whether something is there that has no contents to be replaced: somebody has it open, as with
/// /dev/stdout, or it is a pipe or a device.
bool isStream(const std::filesystem::path& path);
/// Makes a file of `text`, in the place of one that has the name. A stream is written as it is.
void replaceText(const std::filesystem::path& path, std::string_view text);
/// Throws what replaceText() would throw now on a disk with room. Leaves everything as it is.
void requireReplaceable(const std::filesystem::path& path);

/// Calls `write`. An Error that it throws begins with `flag`, which gave the path.
void naming(std::string_view flag, const std::function<void()>& write);

}  // namespace tutti::parallel
