#pragma once

// The kernels of this folder, right or with one bug each, run on data whose result is known. Used
// by the program emulation_kernels, of which kernels_test runs one build for each sanitizer.

#include <functional>
#include <string>
#include <vector>

namespace tutti::emulation::kernels {

/// A bug as a template parameter of a kernel; 0 is none.
struct Case {
  std::string name;
  std::function<bool(int bug)> run;  ///< whether the result was right
  int bugs = 0;                      ///< 1 to so many
};

std::vector<Case> ringCases();
std::vector<Case> exchangeCases();
std::vector<Case> rowsCases();
std::vector<Case> gemmCases();

/// function<Bug>() for the bug of that number, of `kBugs` and none.
template <class Enum, int kBugs, int kAt = 0, class Function>
bool withBug(int bug, Function function) {
  if constexpr (kAt > kBugs) {
    return false;
  } else {
    if (bug == kAt) return function.template operator()<static_cast<Enum>(kAt)>();
    return withBug<Enum, kBugs, kAt + 1>(bug, function);
  }
}

}  // namespace tutti::emulation::kernels
