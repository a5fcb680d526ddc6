/* How a benchmark's coordinator and its workers talk, in C so that MPI's compilers take it too. The
   coordinator sends commands through one FIFO per rank and reads times from another; between
   commands a worker is blocked in read(), so a job that is not being measured takes no processor
   time from the one that is. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a worker of collectives calls. */
enum worker_collective {
  WORKER_ALL_REDUCE,
  WORKER_ALL_GATHER,
  WORKER_REDUCE_SCATTER,
  WORKER_BROADCAST,
  WORKER_REDUCE,
  WORKER_ALL_TO_ALL,
  WORKER_SEND_RECV, /* to the next rank, from the one before */
  WORKER_BARRIER,
  WORKER_COLLECTIVES
};

/* `iterations` timed calls, on buffers of `bytes` where there are such; no iterations ends the
 * job. */
struct worker_command {
  uint64_t bytes;
  uint32_t iterations;
  uint32_t warmups;
  uint32_t collective; /* a worker_collective; others take no notice of this and what follows */
  uint32_t ordinary;   /* 0: in memory of the library's own, where it has such */
  uint32_t predicts;   /* not 0: asks in the place of each call how long it is to take */
};

/* Nanoseconds of a call on this rank; NAN after a wrong result. `call` counts from 0, warm-ups
 * included. */
typedef double (*worker_call)(void* context, const struct worker_command* command, uint32_t call);

/* Obeys commands from `directory`/command.<rank> until it is told to end, answering each in
   `directory`/answer.<rank> with the `iterations` times. The process keeps to one core. Returns an
   exit code. */
int obey_commands(const char* directory, int rank, worker_call call, void* context);

/* Ranks of every library keep to a core of their own, as far as there are cores: woken together,
   two of them may share one until the kernel moves one away. */
void keep_to_core(int rank);

/* Of a clock that only goes on. */
double now_ns(void);

#ifdef __cplusplus
}
#endif
