/* The cases whose ranks are processes, for ranks on hosts of their own: hosts_main.cc puts them
 * there. Those of failures wait for as long as a lost host may take. */

#include "harness.h"

int run_cases_on_hosts(void (*go)(int rank), const char* prefix);

int run_cases_on_hosts(void (*go)(int rank), const char* prefix) {
  const Case* const files[] = {life_cases, collective_cases, group_cases};
  go_to_host_of = go;
  return run_cases(files, sizeof files / sizeof *files, prefix);
}
