#define _GNU_SOURCE
#include "worker.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
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

/* Input element i of a rank in a repetition; sums over all ranks are exact. */
static float value(int rank, uint32_t repetition, size_t i) {
  return (float)((i + repetition * 7u) % 1021u + (size_t)rank);
}
static float sum(int size, uint32_t repetition, size_t i) {
  return (float)size * value(0, repetition, i) + (float)(size * (size - 1) / 2);
}

static int run(const struct worker_library* lib, const struct worker_command* command, float* send,
               float* recv, double* times) {
  const size_t count = command->bytes / sizeof(float);
  for (uint32_t k = 0; k < command->warmups + command->iterations; ++k) {
    for (size_t i = 0; i < count; ++i) send[i] = value(lib->rank, k, i);
    lib->barrier(lib->context);
    const double begin = now_ns();
    lib->all_reduce(lib->context, send, recv, count);
    const double end = now_ns();
    int right = 1;
    for (size_t i = 0; i < count; ++i) right &= recv[i] == sum(lib->size, k, i);
    if (k >= command->warmups) times[k - command->warmups] = right ? end - begin : NAN;
  }
  return 1;
}

/* Ranks of every library keep to a core of their own, as far as there are cores: woken together,
   two of them may share one until the kernel moves one away. */
static void keep_to_core(int rank) {
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

int worker_main(const struct worker_library* lib, const char* directory) {
  keep_to_core(lib->rank);
  const int commands = open_fifo(directory, "command", lib->rank, O_RDONLY);
  const int answers = open_fifo(directory, "answer", lib->rank, O_WRONLY);
  if (commands < 0 || answers < 0) {
    perror("benchmark worker: FIFO");
    return 1;
  }
  struct worker_command command;
  float *send = NULL, *recv = NULL;
  uint64_t bytes = 0;
  while (read_all(commands, &command, sizeof command) && command.iterations > 0) {
    if (command.bytes != bytes) {
      if (send) lib->release(lib->context, send);
      if (recv) lib->release(lib->context, recv);
      send = (float*)lib->allocate(lib->context, command.bytes);
      recv = (float*)lib->allocate(lib->context, command.bytes);
      bytes = command.bytes;
    }
    double* times = (double*)malloc(command.iterations * sizeof(double));
    if (!send || !recv || !times) return 1;
    run(lib, &command, send, recv, times);
    const int written = write_all(answers, times, command.iterations * sizeof(double));
    free(times);
    if (!written) return 1;
  }
  if (send) lib->release(lib->context, send);
  if (recv) lib->release(lib->context, recv);
  return 0;
}
