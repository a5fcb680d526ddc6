// Shared memory when the kernel says no: a call that fails (a seccomp filter makes it), and the
// limit of a real memory cgroup, where one can be made.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <tutti/error.h>

#include "tests/support/child_processes.h"
#include "tests/support/leftovers.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/segment.h"

namespace tutti::transports::shm {
namespace {

/// From now on the system call fails with `error` in this process; false where that cannot be had.
bool refuse(long call, int error) {
  const sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(code), const_cast<sock_filter*>(code)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// What creating a segment says: "code: text", or "nothing".
std::string creating(uint64_t bytes) {
  try {
    Segment::create(bytes, "a window");
  } catch (const Error& e) {
    return std::string(toString(e.code())) + ": " + e.what();
  }
  return "nothing";
}

int runChild(const std::function<int()>& body) {
  tests::ChildProcesses processes;
  processes.start(body);
  return processes.wait(0, tests::kPatience);
}

constexpr int kNoFilter = 77;

TEST(SegmentRefused, NamesTheCallTheSizeAndTheRemedyAndKeepsNothing) {
  struct Case {
    long call;
    int error;
    std::vector<const char*> parts;
  };
  for (const Case& c : {Case{SYS_fallocate, ENOSPC, {"fallocate after 0 bytes", "No space left"}},
                        Case{SYS_fallocate, ENOMEM, {"fallocate", "use fewer ranks"}},
                        Case{SYS_memfd_create, ENOMEM, {"memfd_create", "Cannot allocate"}},
                        Case{SYS_ftruncate, ENOSPC, {"ftruncate", "No space left"}}}) {
    const int code = runChild([&] {
      if (creating(4096) != "nothing") return 1;
      const int before = tests::countDescriptors();
      if (!refuse(c.call, c.error)) return kNoFilter;
      const std::string said = creating(54321);
      std::printf("%s\n", said.c_str());
      for (const char* part : c.parts)
        if (said.find(part) == std::string::npos) return 2;
      if (!said.starts_with("out of memory: 54321 bytes") ||
          said.find("a window") == std::string::npos)
        return 3;
      return tests::countDescriptors() == before ? 0 : 4;
    });
    if (code == kNoFilter) GTEST_SKIP() << "no seccomp filter can be had here";
    EXPECT_EQ(code, 0) << c.parts[0];
  }
}

/// A memory cgroup of its own, of version 1 or 2, for as long as it lives.
class Cgroup {
 public:
  explicit Cgroup(uint64_t limitBytes) {
    const std::string name = "/tutti_test_" + std::to_string(::getpid());
    const std::string v1 = "/sys/fs/cgroup/memory", v2 = "/sys/fs/cgroup";
    const bool old = ::access((v1 + "/memory.limit_in_bytes").c_str(), F_OK) == 0;
    folder_ = (old ? v1 : v2) + name;
    if (::mkdir(folder_.c_str(), 0755) != 0) {
      why_ = "mkdir " + folder_ + ": " + std::strerror(errno);
      folder_.clear();
      return;
    }
    const std::string file = folder_ + (old ? "/memory.limit_in_bytes" : "/memory.max");
    if (::access(file.c_str(), F_OK) != 0)
      why_ = file + " does not exist";
    else if (!write(file, std::to_string(limitBytes)))
      why_ = file + " cannot be written";
  }
  ~Cgroup() {
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  const std::string& why() const { return why_; }  ///< it cannot be had; empty when it can
  bool enter() const { return write(folder_ + "/cgroup.procs", std::to_string(::getpid())); }

 private:
  static bool write(const std::string& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::endl;
    return out.good();
  }
  std::string folder_, why_;
};

// Not by memset: ThreadSanitizer would note it in four times as much memory, within the same limit.
[[gnu::no_sanitize_thread]] void touchPages(volatile std::byte* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 4096) data[at] = std::byte{1};
}

// The kernel would answer with SIGKILL, which the child's end would show.
TEST(MemoryCgroup, ALimitIsAnErrorThatNamesItAndNotADeath) {
  constexpr uint64_t kLimit = uint64_t{96} << 20, kPiece = uint64_t{8} << 20;
  const Cgroup group(kLimit);
  if (!group.why().empty()) GTEST_SKIP() << "no memory cgroup can be made here: " << group.why();
  const int code = runChild([&] {
    if (!group.enter()) return 1;
    const std::string whole = creating(2 * kLimit);
    std::printf("at once: %s\n", whole.c_str());
    if (whole.find("memory cgroup /tutti_test_") == std::string::npos) return 2;
    std::vector<Segment> pieces;
    try {
      while (pieces.size() < 2 * kLimit / kPiece) {
        pieces.push_back(Segment::create(kPiece, "a piece"));
        touchPages(pieces.back().data(), kPiece);
      }
      return 3;
    } catch (const Error& e) {
      std::printf("after %zu pieces of 8 MiB: %s\n", pieces.size(), e.what());
      if (e.code() != ErrorCode::OutOfMemory) return 4;
    }
    if (pieces.size() < 2) return 5;
    pieces.pop_back();  // what is given back can be had again
    pieces.push_back(Segment::create(kPiece, "the last piece"));
    return 0;
  });
  EXPECT_EQ(code, 0);
}

// What all ranks of a host would take together, before the first has taken anything.
TEST(MemoryCgroup, MoreRanksThanItHoldsAreRefusedBeforeAnyHasMemory) {
  const Cgroup group(uint64_t{96} << 20);
  if (!group.why().empty()) GTEST_SKIP() << "no memory cgroup can be made here: " << group.why();
  const int code = runChild([&] {
    if (!group.enter()) return 1;
    try {
      makeShmEndpoint(0, 1024, {});
      return 2;
    } catch (const Error& e) {
      std::printf("%s\n", e.what());
      const std::string said = e.what();
      for (const char* part : {"1024 ranks of one host need ", "memory cgroup /tutti_test_",
                               "use fewer ranks", "TUTTI_SLOT_BYTES"})
        if (said.find(part) == std::string::npos) return 3;
      if (e.code() != ErrorCode::OutOfMemory) return 4;
    }
    return tests::mappedSharedMemoryKib() == 0 ? 0 : 5;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::transports::shm
