/* One rank of an AllReduce benchmark, in C so that MPI's compilers take it too. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct worker_library {
  void* context;
  int rank, size;
  void* (*allocate)(void* context, size_t bytes);
  void (*release)(void* context, void* memory);
  void (*all_reduce)(void* context, const float* send, float* recv, size_t count);
  void (*barrier)(void* context);
};

/* Obeys the commands in `directory` (see commands.h). Returns an exit code. */
int worker_main(const struct worker_library* library, const char* directory);

#ifdef __cplusplus
}
#endif
