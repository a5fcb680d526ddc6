#pragma once

// A folder that processes of a test have as their /proc.

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/check.h"
#include "tests/support/temporary_folder.h"

namespace tutti::tests {

class FakeProc {
 public:
  void add(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// This process's, from now on: on a host of NetworkHosts, and before it has threads.
  void mountHere() const {
    TUTTI_SYSCALL(::unshare(CLONE_NEWNS));
    TUTTI_SYSCALL(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
    TUTTI_SYSCALL(::mount(folder_.path().c_str(), "/proc", nullptr, MS_BIND, nullptr));
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace tutti::tests
