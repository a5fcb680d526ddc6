#pragma once

// Files and folders as checkpoints need them: positional reading that notices a file which has
// become shorter (a mapping would raise SIGBUS), and writing that is on the disk when it says so.
// What the system refuses is an Error of code System that names the call's path and the reason.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tutti::parallel {

class File {
 public:
  /// For reading. Throws InvalidArgument when it is no regular file: a pipe would block, a device
  /// never end.
  static File open(const std::filesystem::path& path);
  /// For writing. Throws System when there is one already.
  static File create(const std::filesystem::path& path);
  /// For writing, with others, what somebody has created.
  static File join(const std::filesystem::path& path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  ///< when it was opened
  /// All `bytes` from `offset`. Throws InvalidArgument, with `what` for which they are, when the
  /// file ends before.
  void read(uint64_t offset, void* to, size_t bytes, std::string_view what) const;
  void write(uint64_t offset, const void* from, size_t bytes);
  void sync();  ///< returns when the disk has it

 private:
  File(std::filesystem::path path, int descriptor) : path_(std::move(path)), fd_(descriptor) {}
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

/// All of a file of at most `most` bytes; `path` is in every error.
std::string readText(const std::filesystem::path& path, uint64_t most);
/// Makes a file of `text` that is on the disk when this returns.
void writeText(const std::filesystem::path& path, std::string_view text);

/// Returns when the disk has the names in a folder.
void syncFolder(const std::filesystem::path& folder);
/// Makes a folder, and those above it that are missing, and has the disk know them.
void makeFolders(const std::filesystem::path& folder);
/// Renames a folder at one stroke, and has the disk know it. Both are in one folder.
void renameFolder(const std::filesystem::path& from, const std::filesystem::path& to);
/// Removes a folder with all that it has, if it is there.
void removeFolder(const std::filesystem::path& folder);

/// Holds a folder for one writer at a time; a process that dies lets it go.
class FolderLock {
 public:
  /// Throws InvalidUsage when somebody else holds it. File systems without locks grant it always.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace tutti::parallel
