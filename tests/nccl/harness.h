#ifndef TUTTI_TESTS_NCCL_HARNESS_H
#define TUTTI_TESTS_NCCL_HARNESS_H

/* What the C tests of nccl.h have in common: checks that end the process with a sentence, and ranks
 * as processes or as threads. A case runs in a process of its own that has no thread yet, under an
 * alarm. */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              ncclGetLastError(NULL));                                                        \
      _Exit(1);                                                                               \
    }                                                                                         \
  } while (0)

#define CHECK_EQ(left, right)                                                                     \
  do {                                                                                            \
    const long long left_ = (long long)(left), right_ = (long long)(right);                       \
    if (left_ != right_) {                                                                        \
      fprintf(stderr, "%s:%d: %s is %lld, and %s is %lld (last error: %s)\n", __FILE__, __LINE__, \
              #left, left_, #right, right_, ncclGetLastError(NULL));                              \
      _Exit(1);                                                                                   \
    }                                                                                             \
  } while (0)

#define OK(call) CHECK_EQ(call, ncclSuccess)

/* The text has `words` in it. */
#define HAS(text, words)                                                               \
  do {                                                                                 \
    if (!strstr(text, words)) {                                                        \
      fprintf(stderr, "%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, words, (text)); \
      _Exit(1);                                                                        \
    }                                                                                  \
  } while (0)

/* The call fails with `result`, and the last error has `words` in it. */
#define FAILS(call, result, words)      \
  do {                                  \
    CHECK_EQ(call, result);             \
    HAS(ncclGetLastError(NULL), words); \
  } while (0)

/* Memory that the ranks of a case share. */
typedef struct {
  ncclUniqueId id;
  ncclUniqueId second_id;
  atomic_int ids_ready;
  atomic_int flags[16];
  atomic_llong began_ms; /* when what the others shall hear of began */
} Shared;

typedef struct {
  int rank, size;
  ncclUniqueId id;
  Shared* shared;
} Rank;

typedef void (*RankBody)(const Rank* rank);

/* Called by run_processes() in each rank's process before it does anything else; where it is null
 * all ranks are on this host. */
extern void (*go_to_host_of)(int rank);

/* One process for each rank; fails unless all end well. `killed` is a rank that is expected to die
 * of SIGKILL, or -1. */
void run_processes(int size, RankBody body, int killed);
/* The same; `meanwhile` is called beside the ranks, by the process that has started them. */
void run_processes_during(int size, RankBody body, int killed, void (*meanwhile)(Shared* shared));
/* One thread for each rank. */
void run_threads(int size, RankBody body);

ncclComm_t join(const Rank* rank);
/* Every rank's number plus one, summed, is what the ranks of a whole communicator make. */
void check_sum(ncclComm_t comm, int size);
/* Settings with blocking = 0. */
ncclConfig_t nonblocking(void);

/* Raises a flag of the case, and waits for as many. */
void raise_flag(Shared* shared, int flag);
void await_flag(Shared* shared, int flag, int count);
void nap(int milliseconds);
/* The same clock for all processes. */
long long now_ms(void);
/* Asks until the communicator is not in progress any more, and returns what it says then. */
ncclResult_t settle(ncclComm_t comm);
/* For 300 ms it says ncclSuccess. */
void stays_well(ncclComm_t comm);

/* The cases, by file. */
typedef struct {
  const char* name;
  void (*run)(void);
} Case;
/* Runs those of `count` files whose names begin with `prefix`, each in a process of its own, and
 * says how each has ended. The program's exit status. */
int run_cases(const Case* const* files, size_t count, const char* prefix);
extern const Case library_cases[], life_cases[], collective_cases[], group_cases[], failure_cases[],
    today_cases[], grow_cases[], one_sided_cases[], gpu_cases[], gpu_life_cases[],
    gpu_today_cases[];

#endif
