// emulation_kernels KERNEL BUG: runs one kernel, with bug number BUG or, with 0, as it should be.
// Exit status 0: the result is right; 1: it is wrong; 2: there is no such kernel or bug; else what
// the emulation or a sanitizer ends with. Without arguments it lists the kernels and how many bugs
// each has.

#include <cstdio>
#include <cstdlib>

#include "tests/emulation/kernels/cases.h"

using namespace tutti::emulation::kernels;

int main(int argc, char** argv) {
  std::vector<Case> cases;
  for (const auto& some : {ringCases(), exchangeCases(), rowsCases(), gemmCases()})
    cases.insert(cases.end(), some.begin(), some.end());
  if (argc != 3) {
    for (const Case& each : cases) printf("%s\n", each.name.c_str());
    return argc == 1 ? 0 : 2;
  }
  for (const Case& each : cases) {
    if (each.name != argv[1]) continue;
    const bool right = each.run(std::atoi(argv[2]));
    printf("%s %s: %s\n", argv[1], argv[2], right ? "right" : "WRONG");
    return right ? 0 : 1;
  }
  fprintf(stderr, "no kernel is called %s\n", argv[1]);
  return 2;
}
