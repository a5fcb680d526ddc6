#include "worker.h"

#include <math.h>

#include "commands.h"

/* Input element i of a rank in a repetition; sums over all ranks are exact. */
static float value(int rank, uint32_t repetition, size_t i) {
  return (float)((i + repetition * 7u) % 1021u + (size_t)rank);
}
static float sum(int size, uint32_t repetition, size_t i) {
  return (float)size * value(0, repetition, i) + (float)(size * (size - 1) / 2);
}

struct buffers {
  const struct worker_library* library;
  float *send, *recv;
  uint64_t bytes;
};

static void release(struct buffers* b) {
  if (b->send) b->library->release(b->library->context, b->send);
  if (b->recv) b->library->release(b->library->context, b->recv);
  b->send = b->recv = NULL;
}

static int resize(struct buffers* b, uint64_t bytes) {
  if (b->bytes == bytes) return 1;
  release(b);
  b->send = (float*)b->library->allocate(b->library->context, bytes);
  b->recv = (float*)b->library->allocate(b->library->context, bytes);
  b->bytes = bytes;
  return b->send && b->recv;
}

static double all_reduce(void* context, const struct worker_command* command, uint32_t call) {
  struct buffers* b = (struct buffers*)context;
  const struct worker_library* lib = b->library;
  const size_t count = command->bytes / sizeof(float);
  if (!resize(b, command->bytes)) return NAN;
  for (size_t i = 0; i < count; ++i) b->send[i] = value(lib->rank, call, i);
  lib->barrier(lib->context);
  const double begin = now_ns();
  lib->all_reduce(lib->context, b->send, b->recv, count);
  const double end = now_ns();
  int right = 1;
  for (size_t i = 0; i < count; ++i) right &= b->recv[i] == sum(lib->size, call, i);
  return right ? end - begin : NAN;
}

int worker_main(const struct worker_library* library, const char* directory) {
  struct buffers buffers = {library, NULL, NULL, 0};
  const int code = obey_commands(directory, library->rank, all_reduce, &buffers);
  release(&buffers);
  return code;
}
