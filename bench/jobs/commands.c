#define _GNU_SOURCE
#include "commands.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int open_fifo(const char* directory, const char* name, int rank, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%d", directory, name, rank);
  return open(path, flags);
}

static int read_all(int fd, void* data, size_t size) {
  char* at = (char*)data;
  while (size > 0) {
    const ssize_t n = read(fd, at, size);
    if (n <= 0) return 0;
    at += n;
    size -= (size_t)n;
  }
  return 1;
}

static int write_all(int fd, const void* data, size_t size) {
  const char* at = (const char*)data;
  while (size > 0) {
    const ssize_t n = write(fd, at, size);
    if (n <= 0) return 0;
    at += n;
    size -= (size_t)n;
  }
  return 1;
}

void keep_to_core(int rank) {
  cpu_set_t allowed, own;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = rank % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- > 0) continue;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

int obey_commands(const char* directory, int rank, worker_call call, void* context) {
  keep_to_core(rank);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* Open MPI's ranks would outlive their launcher */
  const int commands = open_fifo(directory, "command", rank, O_RDONLY);
  const int answers = open_fifo(directory, "answer", rank, O_WRONLY);
  if (commands < 0 || answers < 0) {
    perror("benchmark worker: FIFO");
    return 1;
  }
  struct worker_command command;
  while (read_all(commands, &command, sizeof command) && command.iterations > 0) {
    double* times = (double*)malloc(command.iterations * sizeof(double));
    if (!times) return 1;
    for (uint32_t k = 0; k < command.warmups + command.iterations; ++k) {
      const double time = call(context, &command, k);
      if (k >= command.warmups) times[k - command.warmups] = time;
    }
    const int written = write_all(answers, times, command.iterations * sizeof(double));
    free(times);
    if (!written) return 1;
  }
  return 0;
}
