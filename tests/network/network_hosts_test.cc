// The hosts that the tests of this folder run on, for whom and where they can be made.

#include "tests/support/network_hosts.h"

#include <arpa/inet.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"
#include "tests/support/temporary_folder.h"

namespace tutti::tests {
namespace {

namespace fs = std::filesystem;

/// Nobody listens there: a host that is reached refuses.
bool reached(const std::string& address) {
  const base::FileDescriptor socket(
      TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(9)};
  ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 &&
         errno == ECONNREFUSED;
}

/// Two hosts reach each other and have names and interfaces of their own. Nothing when so.
std::string problemOfTwoHosts() {
  if (const auto reason = NetworkHosts::unavailable()) return *reason;
  const NetworkHosts hosts(2);
  struct stat here {};
  TUTTI_SYSCALL(::stat("/", &here));
  ChildProcesses visitor;
  visitor.start([&] {
    hosts.enter(1);
    char name[8] = {};
    TUTTI_SYSCALL(::gethostname(name, sizeof name - 1));
    if (hosts.name(1) != name) return 2;
    struct stat there {};
    TUTTI_SYSCALL(::stat(".", &there));
    if (here.st_dev != there.st_dev || here.st_ino != there.st_ino) return 3;
    if (!fs::exists(base::message("/sys/class/net/", NetworkHosts::kInterface))) return 4;
    return reached(hosts.address(0)) ? 0 : 5;
  });
  if (const int code = visitor.wait(0, std::chrono::seconds(20)); code != 0)
    return base::message("a visitor of n1 ended with ", code);
  return {};
}

/// Whether a process of its own did `body` without an error, and nothing was left to say.
bool succeeds(const std::function<std::string()>& body) {
  ChildProcesses process;
  process.start([&] {
    try {
      const std::string problem = body();
      std::fputs(problem.c_str(), stderr);
      return problem.empty() ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  });
  return process.wait(0, std::chrono::seconds(60)) == 0;
}

void becomeAnOrdinaryUser() {
  constexpr id_t kNobody = 65534;
  TUTTI_SYSCALL(::setgroups(0, nullptr));
  TUTTI_SYSCALL(::setresgid(kNobody, kNobody, kNobody));
  TUTTI_SYSCALL(::setresuid(kNobody, kNobody, kNobody));
  // As after exec: what /proc has of this process is the user's again.
  TUTTI_SYSCALL(::prctl(PR_SET_DUMPABLE, 1));
}

/// Of this process: nothing that it mounts is seen by others.
void makeMountsPrivate() {
  TUTTI_SYSCALL(::unshare(CLONE_NEWNS));
  TUTTI_SYSCALL(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
}

/// "/" of this process becomes a folder that is no mount point, and has what programs need.
void enterChroot(const fs::path& folder) {
  makeMountsPrivate();
  for (const char* name : {"bin", "sbin", "lib", "lib64", "usr", "etc", "proc", "sys", "dev"}) {
    const fs::path from = fs::path("/") / name, to = folder / name;
    if (fs::is_symlink(from)) {
      fs::copy_symlink(from, to);
    } else if (fs::is_directory(from)) {
      fs::create_directory(to);
      TUTTI_SYSCALL(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr));
    }
  }
  TUTTI_SYSCALL(::chroot(folder.c_str()));
  TUTTI_SYSCALL(::chdir("/"));
}

// A host asks for the other's address, gets it, connects, and is refused: four frames one after
// another, of 42, 42, 74 and 54 bytes. At a byte each millisecond and 50 ms late they take 412 ms.
TEST(NetworkHosts, MayBeFarApart) {
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  if (::access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "there are no tap devices";
  EXPECT_TRUE(succeeds([]() -> std::string {
    const NetworkHosts hosts(
        2, {.delayed = {{.bytesPerSecond = 1000, .delay = std::chrono::milliseconds(50)}}});
    ChildProcesses visitor;
    visitor.start([&] {
      hosts.enter(1);
      const auto begin = std::chrono::steady_clock::now();
      if (!reached(hosts.address(0))) return 2;
      return std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(400) ? 0 : 3;
    });
    const int code = visitor.wait(0, std::chrono::seconds(20));
    return code == 0 ? "" : base::message("a visitor of n1 ended with ", code);
  }));
}

TEST(NetworkHosts, AreMadeByAnOrdinaryUser) {
  const bool possible = succeeds([] {
    becomeAnOrdinaryUser();
    TUTTI_SYSCALL(::unshare(CLONE_NEWUSER | CLONE_NEWUTS));
    TUTTI_SYSCALL(::sethostname("n", 1));
    return std::string();
  });
  if (!possible) GTEST_SKIP() << "an ordinary user has no powers in a namespace of users here";
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  EXPECT_TRUE(succeeds([] {
    becomeAnOrdinaryUser();
    return problemOfTwoHosts();
  }));
}

TEST(NetworkHosts, AreMadeInAChroot) {
  const bool possible = succeeds([] {
    makeMountsPrivate();
    return std::string();
  });
  if (!possible) GTEST_SKIP() << "no chroot can be made: this is no root, or \"/\" no mount point";
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  EXPECT_TRUE(succeeds([&] {
    enterChroot(folder);
    return problemOfTwoHosts();
  }));
  // Links and empty folders: what was mounted there went with the process.
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove(entry);
}

}  // namespace
}  // namespace tutti::tests
