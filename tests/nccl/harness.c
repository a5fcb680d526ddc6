#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMaxRanks = 16, kPatienceSeconds = 60, kCaseSeconds = 100 };

void (*go_to_host_of)(int rank) = NULL;

/* Of one case; less where many have to be tried in little time. */
static unsigned case_seconds(void) {
  const char* given = getenv("TUTTI_TEST_CASE_SECONDS");
  return given ? (unsigned)atoi(given) : kCaseSeconds;
}

static Shared* make_shared(void) {
  Shared* shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  return shared;
}

void nap(int milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void raise_flag(Shared* shared, int flag) { atomic_fetch_add(&shared->flags[flag], 1); }

void await_flag(Shared* shared, int flag, int count) {
  while (atomic_load(&shared->flags[flag]) < count) nap(1);
}

ncclResult_t settle(ncclComm_t comm) {
  while (1) {
    ncclResult_t result = ncclInProgress;
    OK(ncclCommGetAsyncError(comm, &result));
    if (result != ncclInProgress) return result;
    nap(1);
  }
}

void stays_well(ncclComm_t comm) {
  for (int look = 0; look < 30; ++look) {
    CHECK_EQ(settle(comm), ncclSuccess);
    nap(10);
  }
}

ncclConfig_t nonblocking(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/* Rank 0 makes the ids: the process that does listens for the others. */
static Rank enter(int rank, int size, Shared* shared) {
  if (rank == 0) {
    OK(ncclGetUniqueId(&shared->id));
    OK(ncclGetUniqueId(&shared->second_id));
    atomic_store(&shared->ids_ready, 1);
  }
  while (!atomic_load(&shared->ids_ready)) nap(1);
  const Rank self = {rank, size, shared->id, shared};
  return self;
}

void run_processes(int size, RankBody body, int killed) {
  run_processes_during(size, body, killed, NULL);
}

void run_processes_during(int size, RankBody body, int killed, void (*meanwhile)(Shared* shared)) {
  Shared* shared = make_shared();
  pid_t pids[kMaxRanks];
  fflush(NULL);
  for (int rank = 0; rank < size; ++rank) {
    pids[rank] = fork();
    CHECK(pids[rank] >= 0);
    if (pids[rank] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kPatienceSeconds);
    if (go_to_host_of) go_to_host_of(rank);
    const Rank self = enter(rank, size, shared);
    body(&self);
    exit(0);
  }
  if (meanwhile) meanwhile(shared);
  int failed = 0;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    CHECK(waitpid(pids[rank], &status, 0) == pids[rank]);
    const int expected = rank == killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                        : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!expected) fprintf(stderr, "rank %d ended with status %#x\n", rank, (unsigned)status);
    failed |= !expected;
  }
  CHECK(!failed);
  munmap(shared, sizeof *shared);
}

typedef struct {
  RankBody body;
  int rank, size;
  Shared* shared;
} Thread;

static void* run_thread(void* argument) {
  const Thread* thread = argument;
  const Rank self = enter(thread->rank, thread->size, thread->shared);
  thread->body(&self);
  return NULL;
}

void run_threads(int size, RankBody body) {
  Shared* shared = make_shared();
  pthread_t threads[kMaxRanks];
  Thread arguments[kMaxRanks];
  for (int rank = 0; rank < size; ++rank) {
    arguments[rank] = (Thread){body, rank, size, shared};
    CHECK_EQ(pthread_create(&threads[rank], NULL, run_thread, &arguments[rank]), 0);
  }
  for (int rank = 0; rank < size; ++rank) CHECK_EQ(pthread_join(threads[rank], NULL), 0);
  munmap(shared, sizeof *shared);
}

ncclComm_t join(const Rank* rank) {
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, rank->size, rank->id, rank->rank));
  CHECK(comm);
  return comm;
}

void check_sum(ncclComm_t comm, int size) {
  int count = 0, rank = -1;
  OK(ncclCommCount(comm, &count));
  CHECK_EQ(count, size);
  OK(ncclCommUserRank(comm, &rank));
  int mine = rank + 1, sum = 0;
  const ncclResult_t result = ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  CHECK_EQ(sum, size * (size + 1) / 2);
}

static int run_case(const Case* one) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(case_seconds());
    one->run();
    exit(0);
  }
  int status = -1;
  const int well =
      pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  printf("%s %s\n", well ? "ok  " : "FAIL", one->name);
  return well;
}

int run_cases(const Case* const* files, size_t count, const char* prefix) {
  int run = 0, well = 0;
  for (size_t i = 0; i < count; ++i)
    for (const Case* one = files[i]; one->name; ++one) {
      if (strncmp(one->name, prefix, strlen(prefix)) != 0) continue;
      ++run;
      well += run_case(one);
    }
  printf("%d of %d cases are well\n", well, run);
  return run > 0 && well == run ? 0 : 1;
}
