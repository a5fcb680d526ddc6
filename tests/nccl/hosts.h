#ifndef TUTTI_TESTS_NCCL_HOSTS_H
#define TUTTI_TESTS_NCCL_HOSTS_H

/* What the cases of several hosts, in C, get from hosts_main.cc, which makes the hosts. Rank r is
 * on host r % count. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int count;
  void (*enter)(int rank);
  void (*unplug)(int host);
  /* The deadline of the failure model. */
  long long loss_noticed_ms;
} Hosts;

/* Runs the cases whose names begin with `prefix`; the program's exit status. */
int run_cases_on_hosts(const Hosts* hosts, const char* prefix);

#ifdef __cplusplus
}
#endif

#endif
