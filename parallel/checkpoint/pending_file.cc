#include "parallel/checkpoint/pending_file.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "parallel/tensor/check.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;

/// Whether the path is one of a process's open files, as /dev/stdout leads to.
bool isOpenFile(const fs::path& path) {
  const std::string text = path.string();
  return text.starts_with("/proc/") || text.starts_with("/dev/fd/");
}

/// What a chain of symbolic links leads to, which need not exist, or the first open file on the
/// way.
fs::path linked(fs::path path) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  std::error_code none;
  for (int i = 0; i < kMostLinks && !isOpenFile(path) && fs::is_symlink(path, none); ++i) {
    const fs::path to = fs::read_symlink(path, none);
    if (none) break;
    path = path.parent_path() / to;
  }
  return path;
}

}  // namespace

PendingFile::PendingFile(const fs::path& target)
    : target_(linked(target)), file_(File::createBeside(target_)) {}

PendingFile::~PendingFile() {
  std::error_code ignored;  // it is of no use to anybody
  if (!published_) fs::remove(file_.path(), ignored);
}

void PendingFile::publish(Existing existing) {
  if (existing == Existing::Replace) file_.takeModeOf(target_);
  file_.sync();
  existing == Existing::Replace ? renameOver(file_.path(), target_)
                                : renameNew(file_.path(), target_);
  published_ = true;
}

bool isStream(const fs::path& path) {
  if (isOpenFile(linked(path))) return true;
  std::error_code missing;
  const fs::file_type type = fs::status(path, missing).type();
  return type != fs::file_type::not_found && type != fs::file_type::none &&
         type != fs::file_type::regular;
}

void replaceText(const fs::path& path, std::string_view text) {
  if (isStream(path)) return File::continued(path).append(text);
  requireReplaceable(path);
  PendingFile pending(path);
  pending.file().write(0, text.data(), text.size());
  pending.publish(PendingFile::Existing::Replace);
}

void requireReplaceable(const fs::path& path) {
  std::error_code missing;
  if (fs::is_directory(path, missing)) fail(ErrorCode::System, path.string(), " is a folder");
  if (fs::exists(path, missing) && ::access(path.c_str(), W_OK) != 0)
    fail(ErrorCode::System, "cannot write ", path.string(), ": ",
         std::error_code(errno, std::generic_category()).message());
  if (!isStream(path)) PendingFile{path};
}

void naming(std::string_view flag, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    fail(error.code(), flag, ": ", error.what());
  }
}

}  // namespace tutti::parallel
