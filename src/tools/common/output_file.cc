#include "src/tools/common/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/base/check.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

/// Where links lead to, the last of which may lead to nothing yet; `path` where they lead nowhere.
std::string behindLinks(const std::string& path) {
  std::error_code error;
  fs::path at = path;
  for (int links = 0; fs::is_symlink(at, error) && links < 40; ++links)
    at = at.parent_path() / fs::read_symlink(at, error);
  return at;
}

/// A new file beside `target`, with the permissions of the one that it will replace. Sets `name`.
/// No file, with errno, where there can be none.
base::FileDescriptor createBeside(const std::string& target, std::string& name) {
  base::FileDescriptor file;
  constexpr int kTries = 100;  // names that ended processes of this number have left behind
  for (int i = 0; i < kTries && !file; ++i) {
    name = base::message(target, ".partial-", ::getpid(), "-", i);
    file =
        base::FileDescriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file && errno != EEXIST) return file;
  }
  struct stat before = {};
  if (!file || ::stat(target.c_str(), &before) != 0) return file;
  if (::fchmod(file.get(), before.st_mode & 0777) == 0) return file;
  const int error = errno;
  ::unlink(name.c_str());
  errno = error;
  return {};
}

bool isFileOrNothing(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

void syncFolderOf(const std::string& file) {
  const std::string folder = fs::path(file).parent_path();
  const base::FileDescriptor opened(TUTTI_SYSCALL(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  // Not every file system has this; the file itself is on the disk by now.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) base::failSyscall("fsync", errno, folder);
}

}  // namespace

OutputFile::OutputFile(std::string option, std::string path)
    : option_(std::move(option)), path_(std::move(path)), target_(behindLinks(path_)) {
  if (isStandardOutput(path_)) {
    writer_.file = base::FileDescriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!writer_.file) fail(errno);
    return;
  }
  if (!isFileOrNothing(path_)) {  // O_NONBLOCK: nobody waits here for a reader of a FIFO
    writer_.file = base::FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (!writer_.file || ::fcntl(writer_.file.get(), F_SETFL, 0) < 0) fail(errno);
    return;
  }
  if (::access(path_.c_str(), F_OK) == 0 && ::access(path_.c_str(), W_OK) != 0) fail(errno);
  std::string name;
  writer_.file = createBeside(target_, name);
  if (!writer_.file) fail(errno);
  temporary_ = name;
}

OutputFile::~OutputFile() {
  if (!temporary_.empty() && ::unlink(temporary_.c_str()) != 0)
    std::fprintf(stderr, "%s stays: %s\n", temporary_.c_str(), std::strerror(errno));
}

std::streamsize OutputFile::Writer::xsputn(const char* text, std::streamsize bytes) {
  std::streamsize done = 0;
  while (done < bytes && error == 0) {
    const ssize_t count = ::write(file.get(), text + done, static_cast<size_t>(bytes - done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      error = errno;
    else
      done += count;
  }
  return done;
}

OutputFile::Writer::int_type OutputFile::Writer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

void OutputFile::commit() {
  if (writer_.error != 0) fail(writer_.error);
  if (temporary_.empty()) return;
  if (::fsync(writer_.file.get()) != 0) fail(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  syncFolderOf(target_);
}

void OutputFile::fail(int error) const {
  base::fail(ErrorCode::System, option_, " ", path_, " cannot be written: ", std::strerror(error));
}

void writeFile(const std::string& option, const std::string& path, const std::string& text) {
  OutputFile file(option, path);
  file.stream() << text;
  file.commit();
}

void writeIfNamed(const std::string& option, const std::string& path,
                  const std::function<std::string()>& text) {
  if (!path.empty()) writeFile(option, path, text());
}

void requireWritable(const std::string& option, const std::string& path) {
  const OutputFile file(option, path);
}

void printBeside(const std::string& text, std::initializer_list<std::string> files) {
  if (std::ranges::none_of(files, isStandardOutput)) std::fputs(text.c_str(), stdout);
}

void printNow(std::FILE* to, const std::string& text) {
  errno = 0;
  if (std::fputs(text.c_str(), to) >= 0 && std::fflush(to) == 0) return;
  const int error = errno;
  std::clearerr(to);  // it is said here
  if (error != EBADF)
    base::fail(ErrorCode::System, "standard output could not be written: ", std::strerror(error));
}

}  // namespace tutti::tools
