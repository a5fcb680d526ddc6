/* A peer of the benchmark that does nothing in no time: its barrier is faster than any, and what it
   should have received is wrong. Its reduce does not return. Of its sends and receives the first
   are right: two probes of 1 and 13 calls, and one call more. */
#include <stdlib.h>
#include <unistd.h>

#include "bench/collectives/worker.h"

static int number, ranks, calls;

/* A rank's elements are those of rank 0 and its number. */
static void receive(const struct worker_operation* c) {
  const int from = (number + ranks - 1) % ranks;
  if (++calls > 15) return;
  for (size_t i = 0; i < c->count; ++i) c->recv[i] = c->send[i] + (float)(from - number);
}

static void call(void* context, const struct worker_operation* c) {
  (void)context;
  if (c->collective == WORKER_SEND_RECV) receive(c);
  while (c->collective == WORKER_REDUCE) pause();
}

int main(int argc, char** argv) {
  const char *rank = getenv("TUTTI_RANK"), *size = getenv("TUTTI_WORLD_SIZE");
  if (argc != 2 || !rank || !size) return 2;
  number = atoi(rank);
  ranks = atoi(size);
  const struct worker_library library = {NULL, number, ranks, "Stand-in 1.2",
                                         NULL, NULL,   call,  NULL};
  return worker_main(&library, argv[1]);
}
