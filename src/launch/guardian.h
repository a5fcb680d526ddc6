#pragma once

// The guardian: a small process beside the launcher that ends the ranks' process groups when the
// launcher is gone without having done so. The kernel's own signal at a parent's death reaches the
// ranks themselves, but not what they have started.

#include <sys/types.h>

#include <string>

#include "src/base/file_descriptor.h"

namespace tutti::launcher {

class Guardian {
 public:
  /// Starts it. Throws System.
  explicit Guardian(int maxGroups);
  /// Lets it go and waits for its end, a second at most; then it is killed. Groups that it still
  /// knows are killed.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void add(pid_t group);
  /// To be called before the group's leader is reaped, so that its number cannot belong to others.
  void remove(pid_t group);
  /// Once, why it does not guard any more: it was killed, say. Empty else.
  std::string takeTrouble();

 private:
  void tell(pid_t entry);

  base::FileDescriptor pipe_;
  pid_t pid_ = -1;
  std::string trouble_;
};

}  // namespace tutti::launcher
