#pragma once

// A folder that processes of a test have as their /proc.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/check.h"

namespace tutti::tests {

class FakeProc {
 public:
  FakeProc() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~FakeProc() { std::filesystem::remove_all(folder_); }
  FakeProc(const FakeProc&) = delete;
  FakeProc& operator=(const FakeProc&) = delete;

  void add(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// This process's, from now on: on a host of NetworkHosts, and before it has threads.
  void mountHere() const {
    TUTTI_SYSCALL(::unshare(CLONE_NEWNS));
    TUTTI_SYSCALL(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
    TUTTI_SYSCALL(::mount(folder_.c_str(), "/proc", nullptr, MS_BIND, nullptr));
  }

 private:
  std::string folder_ = (std::filesystem::temp_directory_path() / "tutti_proc_XXXXXX").string();
};

}  // namespace tutti::tests
