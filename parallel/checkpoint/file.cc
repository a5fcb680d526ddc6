#include "parallel/checkpoint/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  return {path, succeeded(::open(path.c_str(), kNew, 0666), "create", path)};
}

File File::join(const fs::path& path) {
  return {path, succeeded(::open(path.c_str(), O_WRONLY | O_CLOEXEC), "open", path)};
}

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

void File::sync() { succeeded(::fsync(fd_), "write", path_); }

std::string readText(const fs::path& path, uint64_t most) {
  const File file = File::open(path);
  require(file.bytes() <= most, path.string(), " has ", file.bytes(), " bytes, more than the ",
          most, " that are read");
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size(), "text");
  return text;
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
  const fs::path above = fs::absolute(folder).parent_path();
  makeFolders(above);
  if (::mkdir(folder.c_str(), 0777) < 0 && errno != EEXIST)
    refused("create", folder, {errno, std::generic_category()});
  syncFolder(above);
}

void renameFolder(const fs::path& from, const fs::path& to) {
  succeeded(::rename(from.c_str(), to.c_str()), "rename", from);
  syncFolder(fs::absolute(to).parent_path());
}

void removeFolder(const fs::path& folder) {
  std::error_code why;
  fs::remove_all(folder, why);
  if (why) refused("remove", folder, why);
}

FolderLock::FolderLock(const fs::path& folder)
    : fd_(succeeded(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open", folder)) {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  fail(ErrorCode::InvalidUsage, "somebody else is writing into ", folder.string());
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace tutti::parallel
