#define _GNU_SOURCE
#include "worker.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Where the ranks of a job meet before each call: a file that all of them have mapped. */
struct meeting {
  uint32_t arrived, round;
  double start;
};

struct buffer {
  void* data;
  size_t bytes;
};

struct worker {
  const struct worker_library* library;
  struct meeting* meeting;
  int has_core;                /* of its own */
  uint32_t calls;              /* so far: no two in a row have the same elements */
  struct buffer buffers[2][2]; /* by kind: the library's, ordinary; then send, recv */
};

enum { WINDOW_NS = 2000, NAP_NS = 50000, SPINS = 20000 };
static const double kPatienceNs = 120e9;

/* Input element i of a rank in a call; sums over all ranks are exact. */
static float value(int rank, uint32_t call, size_t i) {
  const uint32_t at = (uint32_t)i;
  return (float)(int32_t)(((at + call * 7u) ^ (at >> 10)) & 1023u) + (float)rank;
}
static float sum(int size, uint32_t call, size_t i) {
  return (float)size * value(0, call, i) + (float)(size * (size - 1) / 2);
}

/* Waits for all ranks; 0 where one does not come. A rank that sleeps leaves its core to the threads
   that others' calls may still need. */
static int meet(struct worker* w, int sleeps) {
  struct meeting* m = w->meeting;
  const uint32_t round = __atomic_load_n(&m->round, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL) == (uint32_t)w->library->size) {
    __atomic_store_n(&m->arrived, 0, __ATOMIC_RELAXED);
    m->start = now_ns() + (w->has_core ? WINDOW_NS : 0);
    __atomic_store_n(&m->round, round + 1, __ATOMIC_RELEASE);
    return 1;
  }
  const struct timespec nap = {0, NAP_NS};
  const double end = now_ns() + kPatienceNs;
  for (int spins = 0; __atomic_load_n(&m->round, __ATOMIC_ACQUIRE) == round; ++spins) {
    if (w->has_core && spins < SPINS) continue;
    if (sleeps)
      nanosleep(&nap, NULL);
    else
      sched_yield();
    if (now_ns() > end) return 0;
  }
  return 1;
}

/* All ranks begin a call at one time by the clock that they share, which is returned: a rank's time
   has in it what it waits for the others. Ranks that share a core cannot spin until then; they
   begin when the last of them has come. First the call before must have ended on all ranks. NAN
   where one does not come. */
static double start_together(struct worker* w) {
  if (!meet(w, 1) || !meet(w, 0)) return NAN;
  const double start = w->meeting->start;
  while (now_ns() < start) continue;
  return start;
}

static int is_own(const struct worker* w, int kind) { return kind == 0 && w->library->allocate; }

static void release(struct worker* w, int kind, struct buffer* b) {
  if (b->data && is_own(w, kind)) w->library->release(w->library->context, b->data);
  if (b->data && !is_own(w, kind)) munmap(b->data, b->bytes);
  b->data = NULL;
  b->bytes = 0;
}

/* Each page is touched. It keeps the memory while the size stays, and no more than that: the
   coordinator counts on it. */
static int resize(struct worker* w, int kind, struct buffer* b, size_t bytes) {
  if (b->bytes == bytes) return 1;
  release(w, kind, b);
  if (is_own(w, kind)) {
    b->data = w->library->allocate(w->library->context, bytes);
  } else {
    b->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->data == MAP_FAILED) b->data = NULL;
  }
  if (!b->data) return 0;
  b->bytes = bytes;
  memset(b->data, 0, bytes);
  return 1;
}

/* Elements that a rank sends and receives; barriers have some, too, which nobody reads. */
struct shape {
  size_t count, send, recv;
};

static struct shape shape_of(const struct worker_command* command, int size) {
  const size_t total = command->bytes < sizeof(float) ? 1 : command->bytes / sizeof(float);
  const size_t ranks = (size_t)size, block = total < ranks ? 1 : total / ranks;
  switch (command->collective) {
    case WORKER_ALL_GATHER: return (struct shape){block, block, block * ranks};
    case WORKER_REDUCE_SCATTER: return (struct shape){block, block * ranks, block};
    case WORKER_ALL_TO_ALL: return (struct shape){block, block * ranks, block * ranks};
    default: return (struct shape){total, total, total};
  }
}

static int is_value(const float* recv, size_t n, int rank, uint32_t call, size_t first) {
  int right = 1;
  for (size_t i = 0; i < n; ++i) right &= recv[i] == value(rank, call, first + i);
  return right;
}
static int is_sum(const float* recv, size_t n, int size, uint32_t call, size_t first) {
  int right = 1;
  for (size_t i = 0; i < n; ++i) right &= recv[i] == sum(size, call, first + i);
  return right;
}

static int is_right(const struct worker_library* lib, const struct worker_operation* c,
                    uint32_t call) {
  const size_t n = c->count, own = (size_t)lib->rank * n;
  int right = 1;
  switch (c->collective) {
    case WORKER_ALL_REDUCE: return is_sum(c->recv, n, lib->size, call, 0);
    case WORKER_REDUCE: return lib->rank != WORKER_ROOT || is_sum(c->recv, n, lib->size, call, 0);
    case WORKER_REDUCE_SCATTER: return is_sum(c->recv, n, lib->size, call, own);
    case WORKER_BROADCAST:
      return lib->rank == WORKER_ROOT || is_value(c->recv, n, WORKER_ROOT, call, 0);
    case WORKER_SEND_RECV:
      return is_value(c->recv, n, (lib->rank + lib->size - 1) % lib->size, call, 0);
    case WORKER_ALL_GATHER:
      for (int r = 0; r < lib->size; ++r) right &= is_value(c->recv + (size_t)r * n, n, r, call, 0);
      return right;
    case WORKER_ALL_TO_ALL:
      for (int r = 0; r < lib->size; ++r)
        right &= is_value(c->recv + (size_t)r * n, n, r, call, own);
      return right;
    default: return 1;
  }
}

/* Its owner rewrites what a rank sends and reads what it has received. What an earlier command has
   left there is wrong. */
static double collective(void* context, const struct worker_command* command, uint32_t number) {
  struct worker* w = (struct worker*)context;
  const uint32_t call = w->calls++;
  (void)number; /* begins at 0 with each command */
  const struct worker_library* lib = w->library;
  const int kind = command->ordinary || !lib->allocate;
  struct buffer *send = &w->buffers[kind][0], *recv = &w->buffers[kind][1];
  const struct shape shape = shape_of(command, lib->size);
  if (command->collective >= WORKER_COLLECTIVES) return NAN;
  if (!resize(w, kind, send, shape.send * sizeof(float))) return NAN;
  if (!resize(w, kind, recv, shape.recv * sizeof(float))) return NAN;
  float* data = (float*)send->data;
  for (size_t i = 0; i < shape.send; ++i) data[i] = value(lib->rank, call, i);
  const struct worker_operation what = {(enum worker_collective)command->collective, data,
                                        (float*)recv->data, shape.count, !is_own(w, kind)};
  if (command->predicts) return lib->predict ? 1e3 * lib->predict(lib->context, &what) : NAN;
  const double start = start_together(w);
  lib->call(lib->context, &what);
  const double end = now_ns();
  return is_right(lib, &what, call) ? end - start : NAN;
}

static struct meeting* join(const char* directory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/meeting", directory);
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) != 0) return NULL;
  void* mapped = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? NULL : (struct meeting*)mapped;
}

static int write_version(const char* directory, const char* version) {
  char path[4096];
  snprintf(path, sizeof path, "%s/version", directory);
  FILE* file = fopen(path, "w");
  if (!file) return 0;
  fprintf(file, "%s\n", version);
  return fclose(file) == 0;
}

int worker_main(const struct worker_library* library, const char* directory) {
  cpu_set_t allowed;
  const int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  struct worker worker = {library, join(directory), library->size <= cores, 0, {{{NULL, 0}}}};
  if (!worker.meeting ||
      (library->rank == WORKER_ROOT && !write_version(directory, library->version))) {
    perror("benchmark worker");
    return 1;
  }
  const int code = obey_commands(directory, library->rank, collective, &worker);
  for (int kind = 0; kind < 2; ++kind)
    for (int i = 0; i < 2; ++i) release(&worker, kind, &worker.buffers[kind][i]);
  munmap(worker.meeting, sizeof(struct meeting));
  return code;
}
