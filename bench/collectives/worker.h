/* One rank of a benchmark job, in C so that MPI's compilers take it too. The coordinator sends
   commands through one FIFO per rank and reads times from another; between commands the rank is
   blocked in read(), so a job that is not being measured takes no processor time from the one that
   is. */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

/* Obeys commands from `directory`/command.<rank> until it is told to end, answering in
   `directory`/answer.<rank>. Returns an exit code. */
int worker_main(const struct worker_library* library, const char* directory);

/* One command: `iterations` timed calls on buffers of `bytes`; no iterations ends the job. */
struct worker_command {
  uint64_t bytes;
  uint32_t iterations;
  uint32_t warmups;
};
/* The answer is `iterations` doubles: nanoseconds of each call on this rank; NAN after a wrong
 * result. */

#ifdef __cplusplus
}
#endif
