#pragma once

// A test program whose processes never outlive it, whatever they do: launchers put their ranks into
// sessions of their own and daemons change their parents, where neither a process group nor the
// kernel's signal at a parent's death reaches them.
//
//   the program -> keeper, to which every orphan below it comes -> tests -> daemons, launchers,
//   ranks

#include <functional>

namespace tutti::launchers {

/// Runs `body` in a process below a keeper and returns its code, or 128 + the signal that ended it.
/// When that process or this one ends, however it does, the keeper kills whatever has been started
/// and removes the folder that is TMPDIR for `body`. Before any thread is started.
int runKept(const std::function<int()>& body);

}  // namespace tutti::launchers
