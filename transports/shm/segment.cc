#include "transports/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"
#include "transports/shm/memory_limits.h"

namespace tutti::transports::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// A signal interrupts fallocate, which then gives back all that it had; small bites keep that loss
// small, and progress certain.
constexpr uint64_t kBiteBytes = uint64_t{16} << 20;

[[noreturn]] void failMemory(uint64_t bytes, const std::string& purpose, const std::string& cause) {
  base::fail(ErrorCode::OutOfMemory, bytes, " bytes of shared memory for ", purpose,
             " cannot be had: ", cause);
}

[[noreturn]] void failDescriptor(uint64_t bytes, const std::string& purpose, const char* call,
                                 int error) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  failMemory(
      bytes, purpose,
      base::message(call, ": ", std::strerror(error),
                    error == EMFILE ? base::message("; the process may have ", limit.rlim_cur,
                                                    " open files: raise it (ulimit -n)")
                                    : std::string()));
}

// Growing a file beyond RLIMIT_FSIZE raises a signal that ends the process: asked for before.
void checkFileSizeLimit(uint64_t bytes, const std::string& purpose) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur)
    failMemory(bytes, purpose,
               base::message("the limit of file sizes, which holds for shared memory too, is ",
                             limit.rlim_cur, " bytes: raise it (ulimit -f)"));
}

void checkRoom(uint64_t bytes, const std::string& purpose) {
  const auto room = memoryRoom();
  if (room && bytes > room->bytes)
    failMemory(bytes, purpose,
               base::message("only ", room->bytes, " bytes are left in ", room->within,
                             ": raise the limit or use fewer ranks"));
}

void reserve(int fd, uint64_t bytes, const std::string& purpose) {
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t bite = std::min(kBiteBytes, bytes - at);
    if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(bite)) == 0)
      at += bite;
    else if (errno != EINTR)
      failMemory(bytes, purpose,
                 base::message("fallocate after ", at, " bytes: ", std::strerror(errno),
                               "; free memory, or use fewer ranks or less shared memory"));
  }
}

}  // namespace

uint64_t Segment::pageBytes() {
  static const uint64_t size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

void Segment::map(int fd, Part part, const std::string& purpose) {
  // MAP_POPULATE: a page of the mapping costs a fault at its first touch otherwise.
  void* const at = ::mmap(nullptr, part.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                          fd, static_cast<off_t>(part.offset));
  if (at == MAP_FAILED)
    failMemory(part.bytes, purpose,
               base::message("mmap: ", std::strerror(errno),
                             "; see ulimit -v and /proc/sys/vm/max_map_count"));
  data_ = static_cast<std::byte*>(at);
  bytes_ = part.bytes;
}

void Segment::unmap() {
  if (data_) ::munmap(data_, bytes_);
  data_ = nullptr;
}

Segment Segment::create(uint64_t bytes, const std::string& purpose) {
  TUTTI_REQUIRE(bytes > 0, "shared memory of 0 bytes for ", purpose);
  if (bytes > static_cast<uint64_t>(INT64_MAX))
    failMemory(bytes, purpose, "no file can be that long");
  checkFileSizeLimit(bytes, purpose);
  checkRoom(bytes, purpose);
  Segment segment;
  segment.fd_ = base::FileDescriptor(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd_) failDescriptor(bytes, purpose, "memfd_create", errno);
  const int fd = segment.fd_.get();
  if (::ftruncate(fd, static_cast<off_t>(bytes)) < 0)
    failMemory(bytes, purpose, base::message("ftruncate: ", std::strerror(errno)));
  reserve(fd, bytes, purpose);
  TUTTI_SYSCALL(::fcntl(fd, F_ADD_SEALS, kSeals));
  segment.map(fd, {0, bytes}, purpose);
  return segment;
}

Segment Segment::open(base::FileDescriptor fd, uint64_t expectedBytes) {
  return open(std::move(fd), expectedBytes, {0, expectedBytes});
}

Segment Segment::open(base::FileDescriptor fd, uint64_t expectedBytes, Part part) {
  TUTTI_ASSERT(part.offset % pageBytes() == 0 && part.offset <= expectedBytes &&
                   part.bytes <= expectedBytes - part.offset,
               "part at ", part.offset, " of ", part.bytes, " bytes in ", expectedBytes);
  struct stat status {};
  if (expectedBytes == 0 || ::fstat(fd.get(), &status) < 0)
    base::fail(ErrorCode::Refused, "a peer's shared memory of ", expectedBytes,
               " bytes came without a usable descriptor");
  // A segment that could shrink would raise SIGBUS here.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    base::fail(ErrorCode::Refused,
               "a peer's shared memory is not a memfd sealed against shrinking");
  if (static_cast<uint64_t>(status.st_size) != expectedBytes)
    base::fail(ErrorCode::Refused, "a peer's shared memory has ", status.st_size, " bytes, not ",
               expectedBytes);
  Segment segment;
  segment.map(fd.get(), part, "a mapping of a peer's memory");
  return segment;
}

base::FileDescriptor Segment::duplicate() const {
  TUTTI_ASSERT(fd_, "only the creator of a segment has its descriptor");
  base::FileDescriptor copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) failDescriptor(bytes_, "a peer that is to map it", "fcntl(F_DUPFD_CLOEXEC)", errno);
  return copy;
}

}  // namespace tutti::transports::shm
