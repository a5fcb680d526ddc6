/* nccl_api [NAME]: every case, or those whose names begin with NAME. Built with Tutti's nccl.h and
 * with the CUDA toolkit's, and run with Tutti's library both times. */

#include "harness.h"

int main(int argc, char** argv) {
  const Case* const files[] = {library_cases, life_cases,  collective_cases, group_cases,
                               failure_cases, today_cases, grow_cases,       one_sided_cases};
  return run_cases(files, sizeof files / sizeof *files, argc > 1 ? argv[1] : "");
}
