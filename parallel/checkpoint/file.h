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
  /// The same, under a name that begins as `path` and that nothing else has.
  static File createBeside(const std::filesystem::path& path);
  /// For writing, with others, what somebody has created.
  static File join(const std::filesystem::path& path);
  /// For append(): what is there, or a new file.
  static File continued(const std::filesystem::path& path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  ///< when it was opened
  /// All `bytes` from `offset`. Throws InvalidArgument, with `what` for which they are, when the
  /// file ends before.
  void read(uint64_t offset, void* to, size_t bytes, std::string_view what) const;
  void write(uint64_t offset, const void* from, size_t bytes);
  /// To the end, of what continued() opened: a pipe or a device too.
  void append(std::string_view text);
  void sync();  ///< returns when the disk has it; a pipe or a device has none
  /// Who may read and write it: those who may `other`, if that is there.
  void takeModeOf(const std::filesystem::path& other);

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
/// Makes a folder that is not there, and has the disk know it. Throws System when it is.
void makeFolder(const std::filesystem::path& folder);
/// Makes a folder under a name that begins as `folder` and that nothing else has, and those above
/// it that are missing.
std::filesystem::path makeFolderBeside(std::filesystem::path folder);
/// Renames a file at one stroke, over one that has the new name, and has the disk know it. Both are
/// in one folder.
void renameOver(const std::filesystem::path& from, const std::filesystem::path& to);
/// The same of a file or a folder. Throws InvalidUsage when something has the new name.
void renameNew(const std::filesystem::path& from, const std::filesystem::path& to);

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
