// Segments: what must hold of shared memory when all goes well, and when a limit is in the way.

#include "transports/shm/segment.h"
#include "tests/support/temporary_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>

#include <tutti/error.h>
#include "transports/shm/memory_limits.h"

namespace tutti::transports::shm {
namespace {

using base::FileDescriptor;

// What `call` throws; null when nothing.
std::exception_ptr thrownBy(const std::function<void()>& call) {
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// As "code: text".
std::string describe(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& e) {
    return std::string(toString(e.code())) + ": " + e.what();
  }
  return "nothing";
}

void expectError(const std::exception_ptr& thrown, ErrorCode code,
                 std::initializer_list<const char*> parts) {
  const std::string text = describe(thrown);
  EXPECT_EQ(text.find(toString(code)), 0u) << "got: " << text;
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

#define EXPECT_ERROR(call, code, ...) expectError(thrownBy([&] { call; }), code, {__VA_ARGS__})

// Sets a soft limit for as long as it lives.
class LimitGuard {
 public:
  LimitGuard(int resource, rlim_t soft) : resource_(resource) {
    ::getrlimit(resource, &before_);
    const rlimit now{soft, before_.rlim_max};
    EXPECT_EQ(::setrlimit(resource, &now), 0);
  }
  ~LimitGuard() { ::setrlimit(resource_, &before_); }

 private:
  int resource_;
  rlimit before_;
};

FileDescriptor memoryFile(uint64_t bytes, int seals) {
  FileDescriptor fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(Segment, IsZeroedAndSeenByASecondMapping) {
  const uint64_t bytes = 3 * Segment::pageBytes() + 5;
  const Segment owner = Segment::create(bytes, "a test");
  EXPECT_EQ(owner.bytes(), bytes);
  EXPECT_TRUE(std::all_of(owner.data(), owner.data() + bytes,
                          [](std::byte b) { return b == std::byte{0}; }));
  const Segment peer = Segment::open(owner.duplicate(), bytes);
  EXPECT_NE(peer.data(), owner.data());
  owner.data()[bytes - 1] = std::byte{42};
  EXPECT_EQ(peer.data()[bytes - 1], std::byte{42});
  EXPECT_EQ(peer.descriptor(), -1);
}

TEST(Segment, OutlivesItsCreator) {
  Segment owner = Segment::create(100, "a test");
  owner.data()[7] = std::byte{9};
  const Segment peer = Segment::open(owner.duplicate(), 100);
  owner = Segment();
  EXPECT_EQ(peer.data()[7], std::byte{9});
}

TEST(Segment, MapsAPart) {
  const uint64_t page = Segment::pageBytes();
  const Segment owner = Segment::create(4 * page, "a test");
  const Segment part = Segment::open(owner.duplicate(), 4 * page, {2 * page, page});
  EXPECT_EQ(part.bytes(), page);
  owner.data()[2 * page] = std::byte{1};
  EXPECT_EQ(part.data()[0], std::byte{1});
}

TEST(Segment, HasItsPagesFromTheStart) {
  const uint64_t bytes = 64 * Segment::pageBytes();
  const Segment owner = Segment::create(bytes, "a test");
  struct stat status {};
  ASSERT_EQ(::fstat(owner.descriptor(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_blocks) * 512, bytes);
}

TEST(Segment, CannotBeResizedByAPeer) {
  const Segment owner = Segment::create(8192, "a test");
  const FileDescriptor peer = owner.duplicate();
  EXPECT_EQ(::ftruncate(peer.get(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(peer.get(), 16384), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(Segment, IsClosedByExec) {
  const Segment owner = Segment::create(1, "a test");
  EXPECT_TRUE(::fcntl(owner.descriptor(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(::fcntl(owner.duplicate().get(), F_GETFD) & FD_CLOEXEC);
}

// What `call` throws under a limit. The undefined-behaviour sanitizer needs a descriptor for its
// first look at a type, so an error is thrown before the limit holds.
std::exception_ptr thrownUnder(int resource, rlim_t soft, const std::function<void()>& call) {
  thrownBy([] { throw Error(ErrorCode::Internal, "the first of its type"); });
  const LimitGuard guard(resource, soft);
  return thrownBy(call);
}

rlim_t lowestFreeDescriptor() { return static_cast<rlim_t>(FileDescriptor(::dup(0)).get()); }

TEST(SegmentLimits, DescriptorsRunOut) {
  expectError(thrownUnder(RLIMIT_NOFILE, lowestFreeDescriptor(),
                          [] { Segment::create(12345, "the inbox of rank 3"); }),
              ErrorCode::OutOfMemory,
              {"12345", "the inbox of rank 3", "memfd_create", "ulimit -n"});
}

TEST(SegmentLimits, DescriptorsRunOutForAPeer) {
  const Segment owner = Segment::create(12345, "a test");
  expectError(thrownUnder(RLIMIT_NOFILE, lowestFreeDescriptor(), [&] { owner.duplicate(); }),
              ErrorCode::OutOfMemory, {"12345", "a peer", "ulimit -n"});
}

// Without the check the process would be ended by SIGXFSZ.
TEST(SegmentLimits, FileSizeLimit) {
  expectError(thrownUnder(RLIMIT_FSIZE, 65536, [] { Segment::create(65537, "a window"); }),
              ErrorCode::OutOfMemory, {"65537", "a window", "65536", "ulimit -f"});
  EXPECT_EQ(thrownUnder(RLIMIT_FSIZE, 65536, [] { Segment::create(65536, "a window"); }), nullptr);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers reserve address space of their own.
TEST(SegmentLimits, AddressSpaceLimit) {
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  expectError(thrownUnder(RLIMIT_AS, kBytes, [] { Segment::create(kBytes, "a window"); }),
              ErrorCode::OutOfMemory, {"268435456", "a window", "mmap", "ulimit -v"});
}
#endif

TEST(SegmentLimits, MoreThanTheMachineHas) {
  EXPECT_ERROR(Segment::create(uint64_t{1} << 50, "a window"), ErrorCode::OutOfMemory,
               "1125899906842624", "a window", "bytes are left in");
  EXPECT_ERROR(Segment::create(UINT64_MAX, "a window"), ErrorCode::OutOfMemory,
               "18446744073709551615", "a window");
}

TEST(SegmentLimits, NothingIsKeptAfterAFailure) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int i = 0; i < 10; ++i) {
    thrownBy([] { Segment::create(uint64_t{1} << 50, "a window"); });
    thrownBy([] { Segment::open(memoryFile(4096, 0), 4096); });
    thrownBy([] { Segment::open(memoryFile(4096, F_SEAL_SHRINK), 8192); });
  }
  EXPECT_EQ(descriptors(), before);
}

TEST(SegmentFromAPeer, IsRefusedUnlessSealedAndOfTheRightSize) {
  EXPECT_ERROR(Segment::open(memoryFile(4096, 0), 4096), ErrorCode::Refused, "sealed");
  EXPECT_ERROR(Segment::open(memoryFile(4096, F_SEAL_GROW), 4096), ErrorCode::Refused, "sealed");
  EXPECT_ERROR(Segment::open(memoryFile(4096, F_SEAL_SHRINK), 8192), ErrorCode::Refused, "4096",
               "8192");
  EXPECT_ERROR(Segment::open(memoryFile(8192, F_SEAL_SHRINK), 4096), ErrorCode::Refused, "8192");
  EXPECT_ERROR(Segment::open(memoryFile(0, F_SEAL_SHRINK), 0), ErrorCode::Refused, "0 bytes");
  EXPECT_ERROR(Segment::open(FileDescriptor(), 4096), ErrorCode::Refused, "descriptor");
  EXPECT_ERROR(Segment::open(FileDescriptor(::open("/dev/null", O_RDWR)), 4096), ErrorCode::Refused,
               "sealed");
  EXPECT_ERROR(Segment::open(FileDescriptor(::open("/proc/self/exe", O_RDONLY)), 4096),
               ErrorCode::Refused, "sealed");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_ERROR(Segment::open(FileDescriptor(ends[0]), 4096), ErrorCode::Refused, "sealed");
  ::close(ends[1]);
}

// A folder that looks like /proc and /sys/fs/cgroup to memoryRoom().
class MemoryRoomTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root_ + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::optional<MemoryRoom> capacity() const {
    return memoryCapacity({root_ + "/proc", root_ + "/cgroup"});
  }
  std::optional<MemoryRoom> room() const {
    return memoryRoom({root_ + "/proc", root_ + "/cgroup"});
  }
  const tests::TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(MemoryRoomTest, NothingIsKnown) { EXPECT_FALSE(room()); }

TEST_F(MemoryRoomTest, TheMachineIsTheLimit) {
  write("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:   100 kB\nSwapFree:  20 kB\n");
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->bytes, 120u * 1024);
  EXPECT_EQ(room()->within, "the machine");
}

TEST_F(MemoryRoomTest, Version2LooksAtEveryGroupAroundUs) {
  write("proc/meminfo", "MemAvailable:   100000 kB\n");
  write("proc/self/cgroup", "0::/job/step\n");
  write("cgroup/job/step/memory.max", "max\n");
  write("cgroup/job/step/memory.current", "500\n");
  write("cgroup/job/memory.max", "1000000\n");
  write("cgroup/job/memory.current", "900000\n");
  write("cgroup/job/memory.stat", "anon 1\nactive_file 1000\ninactive_file 300000\n");
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->bytes, 1000000u - 900000 + 301000);
  EXPECT_NE(room()->within.find("/job (limit 1000000"), std::string::npos);
}

TEST_F(MemoryRoomTest, Version1) {
  write("proc/self/cgroup", "9:cpu:/x\n4:cpuset,memory:/job\n0::/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/memory.usage_in_bytes", "5\n");
  write("cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  write("cgroup/memory/job/memory.usage_in_bytes", "1500\n");
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->bytes, 0u);
}

TEST_F(MemoryRoomTest, CapacityIsWhatAnEmptyMachineHas) {
  write("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:   100 kB\nSwapTotal:  50 kB\n");
  EXPECT_EQ(capacity()->bytes, 950u * 1024);
  write("proc/self/cgroup", "0::/job\n");
  write("cgroup/job/memory.max", "100000\n");
  write("cgroup/job/memory.current", "90000\n");
  EXPECT_EQ(capacity()->bytes, 100000u);
  EXPECT_NE(capacity()->within.find("/job (limit 100000"), std::string::npos);
}

TEST_F(MemoryRoomTest, OddFilesAreNoLimit) {
  write("proc/meminfo", "MemAvailable: kB\n");
  write("proc/self/cgroup", "\n0:\nx\n0::relative\n0::/\n4:memory:\n");
  write("cgroup/memory.max", "much\n");
  write("cgroup/memory.current", "\n");
  EXPECT_FALSE(room());
}

}  // namespace
}  // namespace tutti::transports::shm
