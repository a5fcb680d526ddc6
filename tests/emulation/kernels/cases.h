#pragma once

// The kernels of this folder, right or with one bug each, run on data whose result is known. Used
// by the program emulation_kernels, of which kernels_test runs one build for each sanitizer.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tutti::emulation::kernels {

struct Case {
  std::string name;
  /// With the bug of that number in the kernel's enumeration, 0 for none: whether the result was
  /// right.
  std::function<bool(int bug)> run;
};

std::vector<Case> ringCases();
std::vector<Case> exchangeCases();
std::vector<Case> rowsCases();
std::vector<Case> gemmCases();

/// function<Bug>() for the one of `kBugs` that has that number; ends the program with status 2
/// where none has.
template <auto... kBugs, class Function>
bool withBug(int bug, Function function) {
  bool result = false;
  const bool isKnown =
      ((bug == static_cast<int>(kBugs) && (result = function.template operator()<kBugs>(), true)) ||
       ...);
  if (!isKnown) {
    fprintf(stderr, "the kernel has no bug %d\n", bug);
    std::exit(2);
  }
  return result;
}

}  // namespace tutti::emulation::kernels
