#include "parallel/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

const char* kindOf(std::filesystem::file_type type) {
  switch (type) {
    case std::filesystem::file_type::directory: return "a directory";
    case std::filesystem::file_type::character: return "a device";
    case std::filesystem::file_type::block: return "a device";
    case std::filesystem::file_type::fifo: return "a pipe";
    case std::filesystem::file_type::socket: return "a socket";
    default: return "no file";
  }
}

uint64_t sizeOfFile(const std::string& name, int fd) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0)
    fail(ErrorCode::System, name, " cannot be read: ", std::strerror(errno));
  return static_cast<uint64_t>(facts.st_size);
}

}  // namespace

void requireRegular(const std::string& name, const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  require(!error, name, " cannot be opened: ", error.message());
  require(type == std::filesystem::file_type::regular, name, " is ", kindOf(type),
          ": every rank reads all of it, so it must be a regular file");
}

MappedFile::MappedFile(std::string what, const std::string& path)
    : name_(std::move(what) + " " + path) {
  requireRegular(name_, path);
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(ErrorCode::System, name_, " cannot be opened: ", std::strerror(errno));
  const uint64_t size = sizeOfFile(name_, fd_);
  if (size == 0) return;
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    close(fd_);
    fail(ErrorCode::System, name_, " cannot be mapped: ", std::strerror(error));
  }
  bytes_ = {static_cast<const char*>(mapped), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  close(fd_);
}

void MappedFile::requireWhole() const {
  const uint64_t size = sizeOfFile(name_, fd_);
  require(size >= bytes_.size(), name_, " has ", size, " bytes, and had ", bytes_.size(),
          " when it was opened");
}

}  // namespace tutti::parallel
