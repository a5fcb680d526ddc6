#pragma once

// What a person types, for rank 0. Ranks are process groups of their own, which a terminal stops
// when they read from it; so the launcher reads and passes it on.

#include "src/base/file_descriptor.h"
#include "src/launch/standard_stream.h"

namespace tutti::launcher {

class InputRelay {
 public:
  /// Reads from standard input when it is a terminal; otherwise does nothing.
  InputRelay();
  /// What rank 0 gets as its standard input. Borrowed.
  int rankEnd() const { return readEnd_ ? readEnd_.get() : 0; }
  /// To be called when rank 0 has started.
  void started() { readEnd_.reset(); }
  /// True when the terminal may be read: it is open, this process is in the foreground, and rank 0
  /// has room.
  bool ready() const;
  int fd() const { return terminal_.fd(); }  ///< for poll()
  void pass();

 private:
  StandardStream terminal_;
  base::FileDescriptor readEnd_, writeEnd_;
};

}  // namespace tutti::launcher
