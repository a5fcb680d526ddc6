#pragma once

// Forked processes of a test: watched with deadlines, and killed at the end whatever happens. The
// test's own process must have no threads when it forks.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tutti::tests {

class ChildProcesses {
 public:
  ChildProcesses() = default;
  ~ChildProcesses();  ///< kills and reaps whoever is left
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// One more, numbered from 0: it runs `body`, ends with what that returns, and dies with the
  /// test.
  void start(const std::function<int()>& body);
  int count() const { return static_cast<int>(children_.size()); }
  pid_t pid(int child) const { return children_[static_cast<size_t>(child)].pid; }
  /// Nothing when it has been waited for.
  void signal(int child, int number) const;
  /// Exit code, 128 + signal, or -1 when it is still running after `within`. While it waits it
  /// calls `meanwhile`.
  int wait(int child, std::chrono::milliseconds within,
           const std::function<void()>& meanwhile = {});

 private:
  struct Child {
    pid_t pid = -1;
    int status = -1;
  };
  std::vector<Child> children_;
};

/// How `body` ended in a child: its exit code, or 128 + signal; -1 when it hangs, and is killed.
int inChild(const std::function<int()>& body);

}  // namespace tutti::tests
