#include "parallel/checkpoint/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "parallel/checkpoint/json.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refused(const char* action, const fs::path& path, const std::error_code& why) {
  fail(ErrorCode::System, "cannot ", action, " ", path.string(), ": ", why.message());
}

/// The result of a system call, when it is not -1.
template <class Result>
Result succeeded(Result result, const char* action, const fs::path& path) {
  if (result < 0) refused(action, path, {errno, std::generic_category()});
  return result;
}

/// Calls `make` with names that begin as `path` until one is new: it returns -1 and EEXIST before.
template <class Make>
fs::path madeBeside(const fs::path& path, const char* action, const Make& make) {
  constexpr int kMostNames = 100;
  for (int i = 0;; ++i) {
    uint32_t number = 0;
    succeeded(::getrandom(&number, sizeof(number), 0), "name", path);
    char suffix[32];
    std::snprintf(suffix, sizeof(suffix), ".partial-%08x", number);
    fs::path name = path;
    name += suffix;
    if (make(name) >= 0) return name;
    if (errno != EEXIST || i == kMostNames) refused(action, path, {errno, std::generic_category()});
  }
}

constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;

/// The folder that a name is in.
fs::path above(const fs::path& path) { return fs::absolute(path).parent_path(); }

}  // namespace

File File::open(const fs::path& path) {
  // A pipe without a writer would block here.
  const int fd = succeeded(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), "open", path);
  File file(path, fd);
  struct stat status {};
  succeeded(::fstat(fd, &status), "examine", path);
  require(S_ISREG(status.st_mode), path.string(), " is no regular file");
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

File File::create(const fs::path& path) {
  return {path, succeeded(::open(path.c_str(), kNew, 0666), "create", path)};
}

File File::createBeside(const fs::path& path) {
  int fd = -1;
  const fs::path name = madeBeside(path, "create", [&](const fs::path& candidate) {
    return fd = ::open(candidate.c_str(), kNew, 0666);
  });
  return {name, fd};
}

File File::join(const fs::path& path) {
  return {path, succeeded(::open(path.c_str(), O_WRONLY | O_CLOEXEC), "open", path)};
}

File File::continued(const fs::path& path) {
  constexpr int kEnd = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  return {path, succeeded(::open(path.c_str(), kEnd, 0666), "write", path)};
}

// close() says nothing of what sync() has returned for; what was not synced nobody relies on.
File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void File::read(uint64_t offset, void* to, size_t bytes, std::string_view what) const {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(fd_, static_cast<char*>(to) + done, bytes - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    succeeded(got, "read", path_);
    if (got == 0)
      fail(ErrorCode::InvalidArgument, path_.string(), ": ", inQuotes(what),
           ": the file ends at byte ", offset + done, ", ", bytes - done, " bytes too early");
    done += static_cast<size_t>(got);
  }
}

void File::write(uint64_t offset, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = ::pwrite(fd_, static_cast<const char*>(from) + done, bytes - done,
                                 static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    done += static_cast<size_t>(succeeded(put, "write", path_));
  }
}

void File::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd_, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    text.remove_prefix(static_cast<size_t>(succeeded(put, "write", path_)));
  }
}

void File::sync() {
  if (::fsync(fd_) == 0) return;
  const std::error_code why(errno, std::generic_category());
  struct stat status {};
  succeeded(::fstat(fd_, &status), "examine", path_);
  if (S_ISREG(status.st_mode)) refused("write", path_, why);
}

void File::takeModeOf(const fs::path& other) {
  struct stat status {};
  if (::stat(other.c_str(), &status) == 0)
    succeeded(::fchmod(fd_, status.st_mode & 0777), "set the mode of", path_);
  else if (errno != ENOENT)
    refused("examine", other, {errno, std::generic_category()});
}

std::string readText(const fs::path& path, uint64_t most) {
  const File file = File::open(path);
  require(file.bytes() <= most, path.string(), " has ", file.bytes(), " bytes, more than the ",
          most, " that are read");
  return inMemory(path.string(), file.bytes(), [&] {
    std::string text(file.bytes(), '\0');
    file.read(0, text.data(), text.size(), "text");
    return text;
  });
}

void writeText(const fs::path& path, std::string_view text) {
  File file = File::create(path);
  file.write(0, text.data(), text.size());
  file.sync();
}

void syncFolder(const fs::path& folder) {
  const int fd =
      succeeded(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open", folder);
  const int result = ::fsync(fd);
  const std::error_code why(errno, std::generic_category());
  ::close(fd);
  if (result < 0) refused("write", folder, why);
}

void makeFolders(const fs::path& folder) {
  std::error_code missing;
  if (fs::is_directory(folder, missing)) return;
  makeFolders(above(folder));
  if (::mkdir(folder.c_str(), 0777) < 0 && errno != EEXIST)
    refused("create", folder, {errno, std::generic_category()});
  syncFolder(above(folder));
}

void makeFolder(const fs::path& folder) {
  succeeded(::mkdir(folder.c_str(), 0777), "create", folder);
  syncFolder(above(folder));
}

fs::path makeFolderBeside(fs::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();  // of "folder/"
  makeFolders(above(folder));
  fs::path made = madeBeside(
      folder, "create", [](const fs::path& candidate) { return ::mkdir(candidate.c_str(), 0777); });
  syncFolder(above(made));
  return made;
}

void renameOver(const fs::path& from, const fs::path& to) {
  succeeded(::rename(from.c_str(), to.c_str()), "rename", from);
  syncFolder(above(to));
}

void renameNew(const fs::path& from, const fs::path& to) {
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  // NFS and others cannot: then there is a moment between the question and the answer.
  if (result < 0 && (errno == EINVAL || errno == ENOSYS)) {
    std::error_code missing;
    const bool there = fs::symlink_status(to, missing).type() != fs::file_type::not_found;
    errno = EEXIST;
    if (!there) result = ::rename(from.c_str(), to.c_str());
  }
  if (result < 0 && errno == EEXIST)
    fail(ErrorCode::InvalidUsage, to.string(), " is there already");
  succeeded(result, "rename", from);
  syncFolder(above(to));
}

FolderLock::FolderLock(const fs::path& folder)
    : fd_(succeeded(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open", folder)) {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  fail(ErrorCode::InvalidUsage, "somebody else is writing into ", folder.string());
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace tutti::parallel
