#include "tests/support/leftovers.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::tests {

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool enterOwnNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  }
  const base::FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  return ::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

int countOurSockets() {
  std::ifstream file("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find("@tutti-") != std::string::npos;
  return count;
}

int countDescriptors() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TemporaryFiles::TemporaryFiles() {
  folder_ = (std::filesystem::temp_directory_path() / "tutti_left_XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) base::failSyscall("mkdtemp", errno, folder_);
  ::setenv("TMPDIR", folder_.c_str(), 1);
}

TemporaryFiles::~TemporaryFiles() {
  ::unsetenv("TMPDIR");
  std::filesystem::remove_all(folder_);
}

std::string TemporaryFiles::left() const {
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    names += " " + entry.path().string();
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().find("tutti") != std::string::npos)
      names += " " + entry.path().string();
  return names;
}

namespace {

long kibOfLine(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::stol(line.substr(name.size()));
  base::fail(ErrorCode::System, path, " has no line ", name);
}

}  // namespace

long sharedMemoryKib() { return kibOfLine("/proc/meminfo", "Shmem:"); }

long mappedSharedMemoryKib() { return kibOfLine("/proc/self/status", "RssShmem:"); }

int countSharedMemoryDescriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry, gone).string().starts_with("/memfd:");
  }
  return count;
}

uint64_t testSeed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("TUTTI_TEST_SEED");
    const uint64_t chosen = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::printf("seed %llu (TUTTI_TEST_SEED replays it)\n",
                static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }();
  return seed;
}

int testKills(int ordinary) {
  const char* given = std::getenv("TUTTI_TEST_KILLS");
  return given ? std::atoi(given) : ordinary;
}

uint64_t testMessages(uint64_t ordinary) {
  const char* given = std::getenv("TUTTI_TEST_SLOWNESS");
  const uint64_t slowness = given ? std::strtoull(given, nullptr, 10) : 1;
  return std::max<uint64_t>(1, ordinary / std::max<uint64_t>(1, slowness));
}

}  // namespace tutti::tests
